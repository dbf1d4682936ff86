"""Choose the settings of the table ``end_to_end`` on seeds 0–2: ``python -m research.tables.s4.choose``.

Prints the mean true value of every setting on the misspecified world, at the sizes of quick mode. The table reports
seeds from 100, which no choice has seen. The two-stage fit has a row at its own best learning rate; each method with a
goal has its own weight of the goal.
"""

import statistics
from dataclasses import replace

from research.tables.s4.end_to_end import (
    ALPHAS,
    END_TO_END,
    ON_TOP,
    PLAIN,
    TRAINING,
    TWO_STAGE,
    WRONG,
    fitted_value,
    trials,
)

SEEDS = range(3)
RATES = (1e-2, 2e-2, 4e-2, 8e-2, 0.16, 0.32)
"""Learning rates of the two-stage fit."""
WEIGHTS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Weights of the goal beside the prediction loss."""
FURTHER = {END_TO_END: (30.0, 100.0), PLAIN: (0.003, 0.01), ON_TOP: (0.01, 30.0)}
"""Further weights of the rows whose best one stood at an edge. At 0 a goal leaves the two-stage fit as it is."""


def values() -> dict[str, list[float]]:
    """Setting → true value on each seed."""
    found: dict[str, list[float]] = {}
    for seed in SEEDS:
        learnt, judged = trials(WRONG, seed, quick=True)
        for rate in RATES:
            training = replace(TRAINING, learning_rate=rate)
            value = fitted_value(TWO_STAGE, seed, learnt, judged, training=training)
            found.setdefault(f"{TWO_STAGE}, rate {rate:g}", []).append(value)
        for name in ALPHAS:
            for alpha in (*WEIGHTS, *FURTHER.get(name, ())):
                value = fitted_value(name, seed, learnt, judged, alpha=alpha)
                found.setdefault(f"{name}, alpha {alpha:g}", []).append(value)
        print(f"seed {seed}", flush=True)
    return found


if __name__ == "__main__":
    for setting, each in values().items():
        print(f"{setting:40s} {statistics.mean(each):.4f}  " + " ".join(f"{value:.3f}" for value in each))
