"""The worlds on which a graph can earn payments at all: the best curves by information, without any training."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.world.equal_cost import attainable, value_at_cost
from benchmarks.world.information import FULL, MEANS, NEAR, OWN, TRUTH, curves_by_information
from research.table import Primary, Rows, Summary, Table
from research.tables.s0.comparison import WORLD, by_response, size
from shadowprice.datasets.world import CUSTOMER_LEVELS, WorldOptions
from shadowprice.evaluation import metrics

LEVELS = np.asarray(CUSTOMER_LEVELS)
DEFAULT, CHOSEN = "default", "own change points, influence 2, 45 minor units"
WORLDS: Mapping[str, tuple[float, Mapping[str, Any]]] = {
    DEFAULT: (30, {}),
    "15 minor units an account": (15, {}),
    "45 minor units an account": (45, {}),
    "noise 0.2": (30, {"noise": 0.2}),
    "noise 2": (30, {"noise": 2.0}),
    "influence 0": (30, {"rho": 0.0}),
    "influence 2": (30, {"rho": 2.0}),
    "3 ties": (30, {"ties": 3.0}),
    "20 ties": (30, {"ties": 20.0}),
    "20,000 customers": (30, {"customers": 20_000, "merchants": 5_000, "both": 500}),
    "own change points": (30, {"own_change_point": True}),
    "own change points, 45 minor units": (45, {"own_change_point": True}),
    CHOSEN: (45, {"own_change_point": True, "rho": 2.0}),
}
"""World → budget per account in minor units, and the options that differ from the default."""
GAIN, AUC_GAIN = "two hops over partners' means, payments %", "two hops over partners' means, AUC"
FACTOR = "common factor of the true responses, % of variance"
MOST = "true traits over partners' means, payments %"
ROWS_PER_CUSTOMER = 8


def run(seed: int, quick: bool) -> Rows:
    return {
        name: of_world(
            WorldOptions(**({**options, **size(True)} if quick else {**size(False), **options})), seed, budget
        )
        for name, (budget, options) in WORLDS.items()
    }


def of_world(options: WorldOptions, seed: int, budget: float) -> dict[str, float]:
    """Return one row: what the graph adds to its neighbors' means, and shares of the attainable gain."""
    _, curves = curves_by_information(options, seed)
    truth = curves[TRUTH]
    total = budget * truth.shape[1]
    bought = {name: value_at_cost([by_response(curve, truth, LEVELS)], total) for name, curve in curves.items()}
    between = attainable([by_response(truth, truth, LEVELS)], total)
    auc = {name: expected_auc(curves[name], truth, seed) for name in (MEANS, FULL)}
    return {
        AUC_GAIN: auc[FULL] - auc[MEANS],
        GAIN: 100 * (bought[FULL] / bought[MEANS] - 1),
        MOST: 100 * (bought[TRUTH] / bought[MEANS] - 1),
        FACTOR: common_factor(truth),
        "true traits over the best flat mixture, payments %": 100 * (between.best / between.flat - 1),
        **{f"attainable gain, %: {name}": 100 * between.share(bought[name]) for name in (OWN, MEANS, NEAR, FULL)},
    }


def common_factor(truth: NDArray[np.float64]) -> float:
    """Return the share, %, of the variance of log response over customers that one factor per customer explains.

    Where an incentive is paid on response, such a factor changes no decision: argmax f·(1 − λ·r) is that of c·f.
    AUC rewards knowledge of it all the same.
    """
    logarithm = np.log(truth)
    return float(100 * logarithm.mean(axis=0).var() / logarithm.var(axis=1).mean())


def expected_auc(curves: NDArray[np.float64], truth: NDArray[np.float64], seed: int) -> float:
    """Return the AUC of curves (J, N) on outcomes drawn from the truth, at levels drawn alike for all customers."""
    random = np.random.default_rng([seed, 1])
    account = np.repeat(np.arange(truth.shape[1]), ROWS_PER_CUSTOMER)
    level = random.integers(truth.shape[0], size=account.size)
    redeemed = random.random(account.size) < truth[level, account]
    return float(metrics.auc(redeemed.astype(np.float64), curves[level, account]))


def reading(found: Summary) -> str:
    return (
        f"On the default world the graph's information is worth {found.cell(DEFAULT, GAIN).value:.2g} % of payments "
        f"over that of DNN-H, and complete knowledge {found.cell(DEFAULT, MOST).value:.2g} %. One factor per customer "
        f"explains {found.cell(DEFAULT, FACTOR).value:.0f} % of the variance of the responses there; it changes AUC "
        "and no decision, since an incentive that is paid on response is worth c·f·(1 − λ·r) at every level alike. "
        f"The graph earns {found.cell(CHOSEN, GAIN).value:.2g} % where customers have individual change points "
        f"({found.cell(CHOSEN, FACTOR).value:.0f} %), influence is strong, and the budget reaches the upper levels."
    )


TABLE = Table(
    title="Worlds on which a graph can earn payments",
    source="S0, tables 2 and 4 in kind: the bound for every model",
    data=f"the {WORLD}. No model is trained: each information has its best curves in closed form, partners' means for "
    "DNN-H, two hops for the graph network",
    run=run,
    primary=Primary(GAIN, CHOSEN, DEFAULT, effect=0.5, spread=0.25),
    compare=[(GAIN, name, DEFAULT) for name in WORLDS if name not in (DEFAULT, CHOSEN)],
    reading=reading,
    also=("influence 2", "own change points", "own change points, 45 minor units"),
)
