"""Payments that the graph network earns over DNN-H on the default world, by the number of accounts."""

from typing import Any

import numpy as np

from benchmarks.world.information import FULL, MEANS, curves_by_information
from research.table import Primary, Rows, Summary, Table
from research.tables.s0.comparison import BUDGET, ERROR, OURS, PAYMENTS, SHARE, WORLD, decisions, measure
from research.tables.s0.information import LEVELS
from shadowprice.datasets.world import WorldOptions

METHODS = {OURS: "joint_gnn", "DNN-H": "joint_dnn_h"}
SIZES: dict[str, dict[str, Any]] = {
    "2,000 customers": {"customers": 2_000, "merchants": 500, "both": 50},
    "20,000 customers": {"customers": 20_000, "merchants": 5_000, "both": 500},
}
QUICK_SIZES: dict[str, dict[str, Any]] = {
    "2,000 customers": {"customers": 400, "merchants": 100, "both": 10},
    "20,000 customers": {"customers": 800, "merchants": 200, "both": 20},
}
SMALL, LARGE = SIZES
BOUGHT, WORTH = "graph over DNN-H, payments %", "the same of the best curves on their information, payments %"
RANKED, SHARES = "graph over DNN-H, AUC_c", {OURS: "attainable gain, %: graph", "DNN-H": "attainable gain, %: DNN-H"}


def run(seed: int, quick: bool) -> Rows:
    return {name: of_size(seed, quick, options) for name, options in (QUICK_SIZES if quick else SIZES).items()}


def of_size(seed: int, quick: bool, options: dict[str, Any]) -> dict[str, float]:
    """Return one row: differences between the graph network and DNN-H, trained and at best."""
    found, held_out = measure(METHODS, seed, quick, **options)
    graph, curves = curves_by_information(WorldOptions(**options), seed)
    columns = np.searchsorted(graph.ids[graph.customers], held_out.account_id)
    full, means = (decisions(curves[name][:, columns], held_out.truth, LEVELS, BUDGET) for name in (FULL, MEANS))
    return {
        BOUGHT: 100 * (found[OURS][PAYMENTS] / found["DNN-H"][PAYMENTS] - 1),
        WORTH: 100 * (full[PAYMENTS] / means[PAYMENTS] - 1),
        RANKED: found[OURS]["AUC_c"] - found["DNN-H"]["AUC_c"],
        "graph over DNN-H, curve error": found[OURS][ERROR] - found["DNN-H"][ERROR],
        **{column: found[method][SHARE] for method, column in SHARES.items()},
        "attainable gain, %: best curves on the graph": full[SHARE],
    }


def reading(found: Summary) -> str:
    graph, other = (
        f"from {found.cell(SMALL, column).value:.0f} to {found.cell(LARGE, column).value:.0f} %"
        for column in SHARES.values()
    )
    return (
        f"With ten times the accounts the share of the attainable gain goes {graph} with the graph network and {other} "
        f"with DNN-H. The graph's information is worth {found.cell(LARGE, WORTH).value:.2g} % of payments there."
    )


TABLE = Table(
    title="Payments earned by the graph, by the number of accounts",
    source="S0, table 4, in kind",
    data=f"the {WORLD} with 2,000 or 20,000 customers, a quarter as many merchants",
    run=run,
    reading=reading,
    primary=Primary(BOUGHT, LARGE, SMALL, effect=0.6, spread=0.5),
    compare=[(RANKED, LARGE, SMALL), (WORTH, LARGE, SMALL), *((SHARES[method], LARGE, SMALL) for method in METHODS)],
)
