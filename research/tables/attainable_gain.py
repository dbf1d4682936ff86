"""Share of the gain that personal incentives can earn on the default world, and what the missing part is due to."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.isotonic import IsotonicRegression

from benchmarks.world.day import decided_by, value_at_budget, world_day
from benchmarks.world.information import full_information
from benchmarks.world.posterior import posterior_curves
from benchmarks.world.training_set import training_set
from research.table import Primary, Rows, Summary, Table
from research.trained import config, trained
from shadowprice.campaign import Side
from shadowprice.curves import Curves
from shadowprice.datasets.registry import Dataset
from shadowprice.datasets.truth import true_curves
from shadowprice.datasets.world import WorldOptions, generator
from shadowprice.datasets.world.graph import draw_graph
from shadowprice.evaluation.policy.attainable import Attainable
from shadowprice.learning.training_set import TrainingSet
from shadowprice.pacing.pacers import make_pacer
from shadowprice.pacing.replay.compare import Setting, attainable, run_pacer, value_within_budget

GCN, SGC = "joint_gcn2", "joint_sgc2"
SERVED, SPEND, CALIBRATED = "prices as served", "exact spend", "exact spend, curves calibrated on the truth"
NOISELESS = "exact spend, trained on responses without noise"
KNOWN, OWN = "generator known: features and graph", "generator known: and the account's own trial outcomes"
SHARE, OPTIMUM, ABOVE = "share of the attainable gain, %", "share of the optimum, %", "value above the lowest level"
QUICK: dict[str, Any] = {"customers": 600, "merchants": 200, "both": 20, "day_requests": 3200}


def run(seed: int, quick: bool) -> Rows:
    options = QUICK if quick else {}
    dataset, data = training_set("world", seed, **options)
    setting = world_day(dataset, data, seed)
    judged = attainable(setting)
    rows: dict[str, dict[str, float]] = {}
    for recipe in (GCN, SGC):
        curves = learned(data, recipe, seed, quick)
        mine = decided_by(setting, curves)
        rows[f"{recipe}: {SERVED}"] = found(judged, served(mine))
        rows[f"{recipe}: {SPEND}"] = found(judged, value_at_budget(mine))
        rows[f"{recipe}: {CALIBRATED}"] = found(judged, value_at_budget(decided_by(mine, on_truth(mine, curves))))
    exact = learned(without_noise(dataset, data), SGC, seed, quick)
    rows[f"{SGC}: {NOISELESS}"] = found(judged, value_at_budget(decided_by(setting, exact)))
    world = WorldOptions(**options)
    graph = draw_graph(world, generator(seed))
    known = full_information(graph, world)
    for name, own in ((KNOWN, False), (OWN, True)):
        curves = posterior_curves(data, dataset.tables, graph.ids, known, own_outcomes=own)
        rows[name] = found(judged, value_at_budget(decided_by(setting, curves)))
    return rows


def found(judged: Attainable, value: float) -> dict[str, float]:
    return {SHARE: 100 * judged.share(value), OPTIMUM: 100 * value / judged.best, ABOVE: judged.incremental(value)}


def learned(data: TrainingSet, recipe: str, seed: int, quick: bool) -> Mapping[Side, Curves]:
    """Curves of all accounts that are served, as the training step makes them."""
    return trained(data, recipe, config(seed, quick), calibrated=True).curves(data.inputs, data.serving)


def served(setting: Setting) -> float:
    """True value of the day under the campaign's own pacer, counted while the budget lasts."""
    return value_within_budget(run_pacer(setting, make_pacer(setting.campaign.pacer)))


def on_truth(setting: Setting, curves: Mapping[Side, Curves]) -> dict[Side, Curves]:
    """The curves after isotonic regression of the true response on the predicted one, by level: an oracle."""
    calibrated: dict[Side, Curves] = {}
    for side, curve in curves.items():
        truth = setting.outcomes.truth[side].curves.response
        rows = [_isotonic(p, t) for p, t in zip(curve.response, truth, strict=True)]
        calibrated[side] = Curves(curve.levels, np.stack(rows).astype(np.float32))
    return calibrated


def without_noise(dataset: Dataset, data: TrainingSet) -> TrainingSet:
    """The training set with the true mean response of every row in place of the drawn one: endless rows an account."""
    assert dataset.truth is not None
    rows = {}
    for side, frame in data.rows.items():
        curves = true_curves(dataset.truth, side, frame["account_id"], len(data.levels[side]))
        rows[side] = frame.assign(response=curves[frame["level"].to_numpy(dtype=np.int64), np.arange(len(frame))])
    return TrainingSet(rows, data.serving, data.inputs, data.levels, data.context, data.confounders)


def _isotonic(predicted: Any, truth: Any) -> Any:
    return IsotonicRegression().fit(predicted, truth).predict(predicted)


def reading(found: Summary) -> str:
    bound = found.finding(SHARE, KNOWN, f"{SGC}: {SPEND}")
    return (
        f"The bound of this world: {bound}. "
        "The response family loses nothing: hazards that are constant between levels and lines with a positive slope "
        "contain the true curves. "
        "Influence in the world is linear in the traits of partners, as encoder sgc2 assumes: it is favored by "
        "construction."
    )


TABLE = Table(
    title="Share of the attainable gain",
    source="the share of the attainable gain that the default network reaches",
    data="`world` at its default size (6,000 customers, 1,500 merchants, 8 trial rows an account), a day of about "
    "30,000 requests; simulated",
    run=run,
    reading=reading,
    primary=Primary(SHARE, f"{SGC}: {SERVED}", f"{GCN}: {SERVED}", effect=8.0, spread=6.0),
    compare=[
        (SHARE, f"{SGC}: {SPEND}", f"{SGC}: {SERVED}"),
        (SHARE, f"{SGC}: {CALIBRATED}", f"{SGC}: {SPEND}"),
        (SHARE, f"{SGC}: {NOISELESS}", f"{SGC}: {SPEND}"),
        (SHARE, KNOWN, f"{SGC}: {SPEND}"),
        (SHARE, OWN, KNOWN),
    ],
)
