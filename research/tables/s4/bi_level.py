"""Bi-DFCL: a small trial and many observational rows, in true value at equal spend."""

from typing import Any

import pandas as pd

from research.data.misspecified import World
from research.table import Primary, Rows, Summary, Table
from research.tables.s4.end_to_end import BEST, FINE_TUNING, SAME, TRAINING, bounds, decided
from shadowprice.responses.training import TrainingConfig

CONFOUNDED, NUISANCE, FIRST = "confounded", "confounded, with a nuisance", "the same, larger trial, small network"
TRIAL, LOGGED, BOTH = "two-stage, trial", "two-stage, observational", "two-stage, both"
END_TO_END, BI_LEVEL = "end to end, both", "Bi-DFCL, both"
DRAGON = "DragonNet, both"
SIZES = {False: (600, 6000, 6000), True: (400, 2000, 3000)}
"""quick → rows of the trial, observational rows, rows to be judged on."""
HIDDEN = 16
FIRST_TRIAL, FIRST_HIDDEN = 2.5, 8
"""Settings of the first regime that was tried: its trial in multiples of the others', and the width of its networks."""
REGIMES: dict[str, tuple[float, float, int, tuple[str, ...]]] = {
    CONFOUNDED: (0.0, 1.0, HIDDEN, (TRIAL, LOGGED, BOTH, DRAGON, END_TO_END, BI_LEVEL)),
    NUISANCE: (3.0, 1.0, HIDDEN, (BOTH, END_TO_END, BI_LEVEL)),
    FIRST: (3.0, FIRST_TRIAL, FIRST_HIDDEN, (BOTH, DRAGON, END_TO_END, BI_LEVEL)),
}
"""Column → nuisance, multiple of the trial's rows, width, methods."""
ROUNDS = TrainingConfig(learning_rate=2e-2, epochs=30, patience=15)

METHODS: dict[str, tuple[str, str, dict[str, Any]]] = {
    TRIAL: ("s_learner", "trial", {}),
    LOGGED: ("s_learner", "logged", {}),
    BOTH: ("s_learner", "both", {}),
    DRAGON: ("dragonnet", "both", {}),
    END_TO_END: ("end_to_end", "both", {"fine_tuning": FINE_TUNING}),
    BI_LEVEL: ("bi_dfcl", "both", {"fine_tuning": ROUNDS}),
}


def run(seed: int, quick: bool) -> Rows:
    rows: dict[str, dict[str, float]] = {name: {} for name in (BEST, SAME, *METHODS)}
    drawn, logged, judged_rows = SIZES[quick]
    for column, (nuisance, larger, hidden, methods) in REGIMES.items():
        world = World(seed, nuisance=nuisance, hidden=1.5)
        learnt, judged = world.trial(int(larger * drawn), 1), world.trial(judged_rows, 2)
        frames = {"trial": learnt.frame, "logged": world.logged(logged, 3).frame}
        frames["both"] = pd.concat(list(frames.values()), ignore_index=True)
        # On observational rows alone, nobody knows that they are.
        frames["logged"] = frames["logged"].drop(columns=["exploration", "propensity"])
        rows[BEST][column], rows[SAME][column] = bounds(judged)
        for name in methods:
            model, data, options = METHODS[name]
            own = {"hidden": hidden, "training": TRAINING, **options}
            rows[name][column] = decided(model, frames[data], judged, seed, **own)
    return rows


def reading(found: Summary) -> str:
    shares = ", ".join(
        f"{row} {found.share(CONFOUNDED, row, SAME, BEST):.0%}"
        for row in (BI_LEVEL, BOTH, TRIAL, LOGGED, DRAGON, END_TO_END)
    )
    others = {CONFOUNDED: (TRIAL, LOGGED, DRAGON, END_TO_END), NUISANCE: (BOTH, END_TO_END)}
    first = found.tally([(FIRST, BI_LEVEL, other) for other in (BOTH, DRAGON, END_TO_END)])
    verdicts = "; ".join(
        f"on {regime} {found.tally([(regime, BI_LEVEL, each) for each in rows])}" for regime, rows in others.items()
    )
    return (
        f"Shares of the attainable gain on {CONFOUNDED}: {shares}. Against other methods than that of the verdict, "
        f"{BI_LEVEL} is {verdicts}. In the regime that was tried first it is {first}."
    )


TABLE = Table(
    title="Observational and trial rows together",
    source="the comparison of Bi-DFCL (NeurIPS 2025), whose figures (AUCC, relative EOM) do not compare",
    data=f"a trial of {SIZES[False][0]} rows and {SIZES[False][1]} rows of a targeting policy, confounded by a cause "
    "that no feature shows, without and with a main effect three times the levels'; simulated; true value per "
    f"account at equal true spend, mean of five budgets; width {HIDDEN}. The last column "
    f"({FIRST_TRIAL * SIZES[False][0]:.0f} trial rows, width {FIRST_HIDDEN}) was tried first, the rest chosen "
    "after it on seeds 0–9",
    run=run,
    reading=reading,
    primary=Primary(CONFOUNDED, BI_LEVEL, BOTH, effect=0.015, spread=0.012),
    compare=tuple(
        (column, BI_LEVEL, other)
        for column, regime in REGIMES.items()
        for other in regime[3]
        if other != BI_LEVEL and (column, other) != (CONFOUNDED, BOTH)
    ),
)
