"""S0's graph network against DNN-H and Cox on a world of 100,000 customers: errors, and what each earns."""

from typing import Any

from research.table import Primary, Rows, Summary, Table
from research.tables.s0.comparison import ERROR, FEWER, OURS, QUICK_SIZE, SHARE, WORLD, measure, relative

METHODS = {OURS: "joint_gnn", "DNN-H": "joint_dnn_h", "Cox": "joint_cox"}
SIZE: dict[str, Any] = {"customers": 100_000, "merchants": 25_000, "both": 2_500}
BOUGHT = "payments at equal cost, % over DNN-H"


def run(seed: int, quick: bool) -> Rows:
    found, _ = measure(METHODS, seed, quick, **(QUICK_SIZE if quick else SIZE))
    relative(found, "DNN-H")
    return found


def reading(found: Summary) -> str:
    shares = ", ".join(f"{method} {found.cell(method, SHARE).value:.0f} %" for method in METHODS)
    return f"On payments {found.finding(BOUGHT, OURS, 'Cox')}. Shares of the attainable gain: {shares}."


TABLE = Table(
    title="Graph network against DNN-H and Cox with 100,000 customers",
    source="S0, tables 2 to 4, in kind",
    data=f"the {WORLD} with 100,000 customers and 25,000 merchants",
    run=run,
    reading=reading,
    # At 20,000 customers the difference has a standard deviation of 0.08 over seeds, which falls with the size.
    primary=Primary(BOUGHT, OURS, "DNN-H", effect=0.2, spread=0.08),
    seeds=5,
    compare=[
        (BOUGHT, OURS, "Cox"),
        *((column, OURS, method) for column in ("AUC_c", ERROR, SHARE) for method in ("DNN-H", "Cox")),
    ],
    fewer_is_better=FEWER,
)
