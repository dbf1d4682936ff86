"""S0's graph network against DNN-H and DNN on the default world: errors, and the payments that each earns."""

from research.table import Primary, Rows, Summary, Table
from research.tables.s0.comparison import ERROR, FEWER, OURS, WORLD, measure, relative

METHODS = {OURS: "joint_gnn", "DNN-H": "joint_dnn_h", "DNN": "joint_dnn", "Cox": "joint_cox"}
BOUGHT = "payments at equal cost, % over DNN-H"


def run(seed: int, quick: bool) -> Rows:
    found, _ = measure(METHODS, seed, quick)
    relative(found, "DNN-H")
    return found


def reading(found: Summary) -> str:
    columns = ("AUC_c", ERROR, BOUGHT)
    verdicts = found.tally([(column, OURS, other) for column in columns for other in METHODS if other != OURS])
    return (
        f"Ours is {verdicts} on {', '.join(columns)}. All customers respond at the same incentives here, so the "
        "payments are flat near the optimum; s0_information bounds those of any model."
    )


PUBLISHED = {
    OURS: (0.9303, 0.1934, 0.0973, 0.3241, 0.1486),
    "DNN-H": (0.8879, 0.2880, 0.1391, 0.3584, 0.1698),
    "DNN": (0.8149, 0.3145, 0.1555, 0.3929, 0.1970),
    "Cox": (0.9221, 0.2106, 0.1113, 0.3319, 0.1567),
}
COLUMNS = ("AUC_c", "MAE_c", "MSE_c", "MAE_m", "MSE_m")

PRIMARY = ("AUC_c", OURS, "DNN-H")

TABLE = Table(
    title="Graph network against DNN-H and DNN",
    source="S0, table 2, Cox of table 3; payments in kind as in table 4 (online, at −4.04 % cost)",
    data=f"the {WORLD}",
    run=run,
    published={
        **{method: dict(zip(COLUMNS, values, strict=True)) for method, values in PUBLISHED.items()},
        OURS: {**dict(zip(COLUMNS, PUBLISHED[OURS], strict=True)), BOUGHT: 2.54},
    },
    primary=Primary(*PRIMARY, effect=0.005, spread=0.0045),
    compare=[
        (column, OURS, method)
        for column in ("AUC_c", "MSE_c", ERROR, BOUGHT)
        for method in METHODS
        if method != OURS and (column, OURS, method) != PRIMARY
    ],
    fewer_is_better=FEWER,
    reading=reading,
    also=("MSE_c",),
)
