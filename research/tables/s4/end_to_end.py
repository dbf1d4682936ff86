"""S4: two stages against end to end, in true value at equal spend, where the truth is known."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from research.data.misspecified import SimulatedTrial, World
from research.measures.truth import true_value_at_spend
from research.models import make
from research.table import Primary, Rows, Summary, Table
from shadowprice.responses.training import TrainingConfig

TWO_STAGE, END_TO_END, PLAIN = "two-stage (S-learner)", "end to end", "end to end, no baseline"
FAST = "two-stage, its best rate"
RESIDUALS, R_LEARNER, ON_TOP = "two-stage, residuals", "R-learner", "end to end, residuals"
DFCL = ("DFCL-PL", "DFCL-MER", "DFCL-IFD")
BEST, SAME = "best possible", "same mix for all"
WRONG, RIGHT = "misspecified", "well specified"
NUISANCE = {WRONG: 20.0, RIGHT: 0.0}
HIDDEN = 8
"""Just enough for the nuisance alone."""
SIZES = {False: (3000, 6000), True: (1500, 3000)}
"""quick → rows to learn from, rows to be judged on."""
SPENDS = np.linspace(0.15, 0.85, 5)
"""Budgets, as shares of what the best decisions would spend if money cost nothing."""
TRAINING = TrainingConfig(learning_rate=2e-2, epochs=200, patience=25, decay=0.99, weight_decay=0.0)
FINE_TUNING = TrainingConfig(learning_rate=2e-2, epochs=100, patience=40, decay=0.99, weight_decay=0.0)

ALPHAS = {
    END_TO_END: 30.0,
    PLAIN: 0.003,
    ON_TOP: 30.0,
    "DFCL-PL": 1.0,
    "DFCL-MER": 0.3,
    "DFCL-IFD": 0.1,
    "DFCL-PL, residuals": 3.0,
    "DFCL-MER, residuals": 3.0,
    "DFCL-IFD, residuals": 3.0,
}
"""Row → weight of the goal, chosen by ``research.tables.s4.choose``; without a baseline the least is best."""
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    TWO_STAGE: ("s_learner", {}),
    FAST: ("s_learner", {"training": replace(TRAINING, learning_rate=0.16)}),
    RESIDUALS: ("residual_s_learner", {}),
    R_LEARNER: ("r_learner", {}),
    END_TO_END: ("end_to_end", {}),
    PLAIN: ("end_to_end", {"baseline": False}),
    ON_TOP: ("residual_end_to_end", {}),
    "DFCL-PL": ("dfcl_policy", {}),
    "DFCL-MER": ("dfcl_entropy", {}),
    "DFCL-IFD": ("dfcl_difference", {}),
    "DFCL-PL, residuals": ("residual_dfcl_policy", {}),
    "DFCL-MER, residuals": ("residual_dfcl_entropy", {}),
    "DFCL-IFD, residuals": ("residual_dfcl_difference", {}),
}
"""Row → model and options."""
WELL = (TWO_STAGE, RESIDUALS, END_TO_END)
"""Rows that are measured on the well specified world too."""
DFCL_PLAIN = tuple((name, TWO_STAGE) for name in DFCL)
DFCL_RESIDUALS = tuple((f"{name}, residuals", RESIDUALS) for name in DFCL)


def run(seed: int, quick: bool) -> Rows:
    rows: dict[str, dict[str, float]] = {name: {} for name in (BEST, SAME, *METHODS)}
    for column in NUISANCE:
        learnt, judged = trials(column, seed, quick)
        rows[BEST][column], rows[SAME][column] = bounds(judged)
        for name in METHODS if column == WRONG else WELL:
            rows[name][column] = fitted_value(name, seed, learnt, judged)
    return rows


def trials(column: str, seed: int, quick: bool = False) -> tuple[SimulatedTrial, SimulatedTrial]:
    """Rows to learn from and rows to be judged on."""
    world, sizes = World(seed, nuisance=NUISANCE[column]), SIZES[quick]
    return world.trial(sizes[0], 1), world.trial(sizes[1], 2)


def fitted_value(
    name: str,
    seed: int,
    learnt: SimulatedTrial,
    judged: SimulatedTrial,
    *,
    training: TrainingConfig = TRAINING,
    **changed: Any,
) -> float:
    """True value of a method's decisions, mean over the budgets; ``changed`` are options to try."""
    model, options = METHODS[name]
    if name in ALPHAS:
        options = {"fine_tuning": FINE_TUNING, "alpha": ALPHAS[name], **options, **changed}
    options = {"training": training, **options}
    return decided(model, learnt.frame, judged, seed, hidden=HIDDEN, **options)


def decided(model: str, frame: pd.DataFrame, judged: SimulatedTrial, seed: int, **options: Any) -> float:
    """True value of the decisions of a model that is fitted to ``frame``, mean over the budgets."""
    made = make(model, levels=judged.levels, seed=seed, **options).fit(frame)
    return value_at_spend(made.curve(judged.frame).response, made.cost(judged.frame), judged)


def bounds(judged: SimulatedTrial) -> tuple[float, float]:
    """Value of the best decisions, and of the same mixture for all."""
    return value_at_spend(judged.value, judged.cost, judged), uniform_value(judged)


def value_at_spend(response: Any, expense: Any, judged: SimulatedTrial) -> float:
    """Mean over the budgets."""
    found = true_value_at_spend(response, expense, judged.value, judged.cost, spends(judged))
    return float(found.mean())


def uniform_value(judged: SimulatedTrial) -> float:
    """Value of spending the same money on all rows alike, by chance between two levels."""
    return float(np.interp(spends(judged), judged.cost.mean(axis=1), judged.value.mean(axis=1)).mean())


def spends(judged: SimulatedTrial) -> Any:
    """Minor units per row."""
    freely = judged.cost[judged.value.argmax(axis=0), np.arange(judged.value.shape[1])].mean()
    return SPENDS * freely


def reading(found: Summary) -> str:
    told = (TWO_STAGE, RESIDUALS, R_LEARNER, END_TO_END, ON_TOP)
    shares = ", ".join(f"{row} {found.share(WRONG, row, SAME, BEST):.0%}" for row in told)
    control, goal = (found.finding(WRONG, *pair) for pair in ((RESIDUALS, TWO_STAGE), (ON_TOP, RESIDUALS)))
    plain, above = (found.tally([(WRONG, *pair) for pair in pairs]) for pairs in (DFCL_PLAIN, DFCL_RESIDUALS))
    return (
        f"Shares of the attainable gain on {WRONG}: {shares}. The control variate, without any goal: {control}; the "
        f"goal on top of it: {goal}. The DFCL losses against the two-stage fit of the same outcomes: {plain} without "
        f"residuals, {above} on them."
    )


TABLE = Table(
    title="End to end against two stages under a budget",
    source="S4's comparison of end-to-end and two-stage training, whose figures are not public",
    data="trials of four levels (`research/data/misspecified.py`) where the main effect is 20 times the levels'; "
    f"{SIZES[False][0]} rows to learn, {SIZES[False][1]} to judge; simulated; true value per account at equal true "
    f"spend, mean of five budgets; one network of width {HIDDEN}, misspecified by choice on seeds 0–2. Residuals: "
    "outcomes less the cross-fitted baseline of their row",
    run=run,
    reading=reading,
    primary=Primary(WRONG, ON_TOP, RESIDUALS, effect=0.03, spread=0.02),
    compare=(
        *((RIGHT, row, TWO_STAGE) for row in WELL[1:]),
        *((WRONG, row, TWO_STAGE) for row in (FAST, RESIDUALS, R_LEARNER, END_TO_END, PLAIN)),
        *((WRONG, RESIDUALS, row) for row in (FAST, END_TO_END)),
        *((WRONG, *pair) for pair in (*DFCL_PLAIN, *DFCL_RESIDUALS)),
    ),
)
