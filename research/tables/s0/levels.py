"""S0's figures 3b and 5: response and hazard rate by level beside the truth, and the change points found."""

from benchmarks.world.training_set import training_set
from research.summary import show
from research.table import Primary, Rows, Summary, Table
from research.tables.s0.comparison import WORLD, size
from research.trained import config, trained
from shadowprice.datasets.world import CHANGE_POINTS
from shadowprice.learning.evaluate import Facts, evaluate

EVERY = "change points"


def run(seed: int, quick: bool) -> Rows:
    dataset, data = training_set("world", seed, **size(quick))
    model = trained(data, "joint_gnn", config(seed, quick, 60))
    side = evaluate(model, data, facts=Facts(truth=dataset.truth), replications=2).sides["customer"]
    assert side.true_curve is not None
    assert side.true_hazard is not None
    assert side.hazard is not None
    assert side.change_points is not None
    by_level = side.by_level
    rows: dict[str, dict[str, float]] = {}
    for j, level in enumerate(data.levels["customer"]):
        rows[f"{level} cents"] = {
            "observed, %": 100 * float(by_level.observed[j]),
            "model, %": 100 * float(by_level.predicted[j]),
            "truth, %": 100 * float(side.true_curve[j]),
            "model hazard": 100 * float(side.hazard[j]),
            "true hazard": 100 * float(side.true_hazard[j]),
        }
    found = set(side.change_points.at.tolist())
    rows[EVERY] = {
        "found of the true ones, %": 100 * len(found & set(CHANGE_POINTS)) / len(CHANGE_POINTS),
        "found besides": float(len(found - set(CHANGE_POINTS))),
    }
    return rows


def reading(found: Summary) -> str:
    levels = [row for row in found.rows if row != EVERY]
    worst = max(abs(found.cell(row, "model, %").value - found.cell(row, "truth, %").value) for row in levels)
    jump = found.cell("100 cents", "model hazard").value / found.cell("80 cents", "model hazard").value
    fall = found.cell("120 cents", "model hazard").value / found.cell("100 cents", "model hazard").value
    return (
        f"The model's mean response is within {worst:.2g} percentage points of the truth at every level. Its mean "
        f"hazard is multiplied by {jump:.2g} behind 80 cents and by {fall:.2g} behind 100 cents. Of the planted "
        f"change points {show(found.cell(EVERY, 'found of the true ones, %'))} % are found, and "
        f"{show(found.cell(EVERY, 'found besides'))} others a run."
    )


TABLE = Table(
    title="Response and hazard by level, with change points",
    source="S0, figures 3b and 5 in kind: change points near 80 and 100 cents; the paper prints no figures",
    data=f"the {WORLD}, change points planted at 80 and 100 cents. Hazards: rates per 100 cents in the segment that "
    "ends at the level",
    run=run,
    primary=Primary("model hazard", "100 cents", "80 cents", effect=0.5, spread=0.25),
    compare=[("model hazard", "100 cents", "120 cents")],
    fewer_is_better=["found besides"],
    reading=reading,
)
