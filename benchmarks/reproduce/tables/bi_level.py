"""Bi-DFCL: a small trial and many observational rows, in true value at equal spend."""

from __future__ import annotations

from typing import Any

import pandas as pd

from benchmarks.reproduce.summary import Summary
from benchmarks.reproduce.table import Rows, Table
from benchmarks.reproduce.tables.end_to_end import FINE_TUNING, TRAINING, uniform_value, value_at_spend
from shadowprice.datasets.misspecified import World
from shadowprice.responses import make
from shadowprice.responses.training import TrainingConfig

CONFOUNDED, NUISANCE = "confounded", "confounded, with a nuisance"
TRIAL, LOGGED, BOTH = "two-stage, trial", "two-stage, observational", "two-stage, both"
END_TO_END, BI_LEVEL = "end to end, both", "Bi-DFCL, both"
SIZES = {False: (600, 6000, 6000), True: (400, 2000, 3000)}
"""quick → rows of the trial, observational rows, rows to be judged on."""
HIDDEN = 16
ROUNDS = TrainingConfig(learning_rate=2e-2, epochs=30, patience=15)

METHODS: dict[str, tuple[str, str, dict[str, Any]]] = {
    TRIAL: ("s_learner", "trial", {}),
    LOGGED: ("s_learner", "logged", {}),
    BOTH: ("s_learner", "both", {}),
    "DragonNet, both": ("dragonnet", "both", {}),
    END_TO_END: ("end_to_end", "both", {"fine_tuning": FINE_TUNING}),
    BI_LEVEL: ("bi_dfcl", "both", {"fine_tuning": ROUNDS}),
}


def run(seed: int, quick: bool) -> Rows:
    """Every method on one world without a nuisance, and those of both sources on one with it."""
    rows: dict[str, dict[str, float]] = {name: {} for name in ("best possible", "same mix for all", *METHODS)}
    drawn, logged, judged_rows = SIZES[quick]
    for column, nuisance in ((CONFOUNDED, 0.0), (NUISANCE, 3.0)):
        world = World(seed, nuisance=nuisance, hidden=1.5)
        learnt, judged = world.trial(drawn, 1), world.trial(judged_rows, 2)
        frames = {"trial": learnt.frame, "logged": world.logged(logged, 3).frame}
        frames["both"] = pd.concat(list(frames.values()), ignore_index=True)
        # On observational rows alone, nobody knows that they are.
        frames["logged"] = frames["logged"].drop(columns=["exploration", "propensity"])
        rows["best possible"][column] = value_at_spend(judged.value, judged.cost, judged)
        rows["same mix for all"][column] = uniform_value(judged)
        for name in METHODS if column == CONFOUNDED else (BOTH, END_TO_END, BI_LEVEL):
            model, data, options = METHODS[name]
            made = make(model, levels=learnt.levels, seed=seed, hidden=HIDDEN, training=TRAINING, **options)
            made.fit(frames[data])
            rows[name][column] = value_at_spend(made.curve(judged.frame).response, made.cost(judged.frame), judged)
    return rows


def reading(found: Summary) -> str:
    """What came out."""
    sentences = [found.sentence(CONFOUNDED, BI_LEVEL, other) for other in (TRIAL, LOGGED, BOTH, END_TO_END)]
    sentences += [found.sentence(NUISANCE, BI_LEVEL, other) for other in (BOTH, END_TO_END)]
    return "; ".join(sentences) + "."


TABLE = Table(
    title="Observational and trial rows together",
    source="the comparison of Bi-DFCL (NeurIPS 2025) with its baselines; its figures are AUCC and relative EOM on data "
    "that are not public, so none stand beside ours",
    data=f"simulated: a trial of {SIZES[False][0]} rows and {SIZES[False][1]} rows that a targeting policy chose, "
    "confounded by a cause that no feature shows, without and with a main effect three times the levels'; true value "
    f"per account at equal true spend, mean of five budgets; network width {HIDDEN}",
    run=run,
    reading=reading,
    compare=(
        *((CONFOUNDED, BI_LEVEL, other) for other in (TRIAL, LOGGED, BOTH, "DragonNet, both", END_TO_END)),
        *((NUISANCE, BI_LEVEL, other) for other in (BOTH, END_TO_END)),
    ),
    seeds=10,
)
