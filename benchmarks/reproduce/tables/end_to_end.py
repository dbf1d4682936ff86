"""S4: two stages against end to end, in true value at equal spend, where the truth is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.reproduce.summary import Summary
from benchmarks.reproduce.table import Rows, Table
from shadowprice.datasets.misspecified import SimulatedTrial, World
from shadowprice.evaluation.truth import true_value_at_spend
from shadowprice.responses import make
from shadowprice.responses.training import TrainingConfig

TWO_STAGE, END_TO_END, PLAIN = "two-stage (S-learner)", "end to end", "end to end, no baseline"
WRONG, RIGHT = "misspecified", "well specified"
HIDDEN = 8
"""Just enough for the nuisance alone."""
SIZES = {False: (5000, 10_000), True: (2500, 5000)}
"""quick → rows to learn from, rows to be judged on."""
SPENDS = np.linspace(0.15, 0.85, 5)
"""Budgets, as shares of what the best decisions would spend if money cost nothing."""
TRAINING = TrainingConfig(learning_rate=2e-2, epochs=200, patience=25, decay=0.99, weight_decay=0.0)
FINE_TUNING = TrainingConfig(learning_rate=2e-2, epochs=100, patience=40, decay=0.99, weight_decay=0.0)

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    TWO_STAGE: ("s_learner", {}),
    END_TO_END: ("end_to_end", {}),
    PLAIN: ("end_to_end", {"baseline": False}),
    "DFCL-PL": ("dfcl_policy", {}),
    "DFCL-MER": ("dfcl_entropy", {}),
    "DFCL-IFD": ("dfcl_difference", {}),
}


def run(seed: int, quick: bool) -> Rows:
    """Every method on one world of each kind."""
    rows: dict[str, dict[str, float]] = {name: {} for name in ("best possible", "same mix for all", *METHODS)}
    for column, nuisance in ((WRONG, 20.0), (RIGHT, 0.0)):
        world = World(seed, nuisance=nuisance)
        learnt, judged = world.trial(SIZES[quick][0], 1), world.trial(SIZES[quick][1], 2)
        rows["best possible"][column] = value_at_spend(judged.value, judged.cost, judged)
        rows["same mix for all"][column] = uniform_value(judged)
        for name in METHODS if nuisance else (TWO_STAGE, END_TO_END):
            rows[name][column] = fitted_value(name, seed, learnt, judged)
    return rows


def fitted_value(name: str, seed: int, learnt: SimulatedTrial, judged: SimulatedTrial) -> float:
    """True value of a method's decisions, mean over the budgets."""
    model, options = METHODS[name]
    if model != "s_learner":
        options = {"fine_tuning": FINE_TUNING, **options}
    made = make(model, levels=learnt.levels, seed=seed, hidden=HIDDEN, training=TRAINING, **options).fit(learnt.frame)
    return value_at_spend(made.curve(judged.frame).response, made.cost(judged.frame), judged)


def value_at_spend(response: Any, expense: Any, judged: SimulatedTrial) -> float:
    """Mean over the budgets."""
    found = true_value_at_spend(response, expense, judged.value, judged.cost, spends(judged))
    return float(found.mean())


def uniform_value(judged: SimulatedTrial) -> float:
    """Value of spending the same money on everybody alike, by chance between two levels."""
    return float(np.interp(spends(judged), judged.cost.mean(axis=1), judged.value.mean(axis=1)).mean())


def spends(judged: SimulatedTrial) -> Any:
    """Minor units per row."""
    freely = judged.cost[judged.value.argmax(axis=0), np.arange(judged.value.shape[1])].mean()
    return SPENDS * freely


def reading(found: Summary) -> str:
    """What came out."""
    published = "; ".join(found.sentence(WRONG, name, TWO_STAGE) for name in ("DFCL-PL", "DFCL-MER", "DFCL-IFD"))
    return (
        f"{found.sentence(WRONG, END_TO_END, TWO_STAGE)}; {found.sentence(RIGHT, END_TO_END, TWO_STAGE)}. "
        "Much hangs on the row baseline, each row's mean prediction taken off its outcome; without it an outcome "
        f"carries the whole nuisance as noise: {found.sentence(WRONG, PLAIN, TWO_STAGE)}. "
        f"The DFCL losses as published have none: {published}."
    )


TABLE = Table(
    title="End to end against two stages under a budget",
    source="S4's comparison of end-to-end and two-stage training (its own figures are not public, so none are quoted)",
    data="simulated trials of four levels (`shadowprice/datasets/misspecified.py`): the main effect is 20 times the "
    "levels' effect, or absent; true value per account at equal true spend, mean of five budgets; "
    f"one network of width {HIDDEN} for all",
    run=run,
    reading=reading,
    compare=(
        (WRONG, END_TO_END, TWO_STAGE),
        (RIGHT, END_TO_END, TWO_STAGE),
        (WRONG, PLAIN, TWO_STAGE),
        (WRONG, "DFCL-PL", TWO_STAGE),
        (WRONG, "DFCL-MER", TWO_STAGE),
        (WRONG, "DFCL-IFD", TWO_STAGE),
    ),
    seeds=20,
)
