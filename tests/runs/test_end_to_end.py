"""S4's claim, corrected, on fewer seeds than `make reproduce` takes: known truth, equal spend. Simulated."""

import numpy as np
import pytest

from research.data.misspecified import World
from research.summary import over_seeds
from research.tables.s4.end_to_end import (
    END_TO_END,
    RESIDUALS,
    TWO_STAGE,
    fitted_value,
    uniform_value,
    value_at_spend,
)


def shares(nuisance: float, seeds: int, rows: int) -> dict[str, np.ndarray]:
    """Method → per seed, the share of what the best decisions add to spending alike on everybody."""
    found: dict[str, list[float]] = {TWO_STAGE: [], RESIDUALS: [], END_TO_END: []}
    for seed in range(seeds):
        world = World(seed, nuisance=nuisance)
        learnt, judged = world.trial(rows, 1), world.trial(4000, 2)
        low, high = uniform_value(judged), value_at_spend(judged.value, judged.cost, judged)
        for name, values in found.items():
            values.append((fitted_value(name, seed, learnt, judged) - low) / (high - low))
    return {name: np.array(values) for name, values in found.items()}


@pytest.fixture(scope="module")
def misspecified() -> dict[str, np.ndarray]:
    return shares(20.0, seeds=8, rows=3000)


def test_residual_outcomes_beat_two_stages_where_the_network_spends_itself_on_a_nuisance(misspecified) -> None:
    difference = over_seeds(np.subtract(misspecified[RESIDUALS], misspecified[TWO_STAGE]))
    assert difference.low > 0, str(difference)


def test_end_to_end_earns_no_more_than_two_stages_on_the_same_residual_outcomes(misspecified) -> None:
    difference = over_seeds(np.subtract(misspecified[END_TO_END], misspecified[RESIDUALS]))
    assert difference.low <= 0, str(difference)


def test_there_is_something_to_win(misspecified) -> None:
    assert misspecified[TWO_STAGE].mean() < 0.5


def test_end_to_end_ties_where_the_network_is_well_specified() -> None:
    found = shares(0.0, seeds=3, rows=2500)
    assert found[TWO_STAGE].mean() > 0.9
    assert abs((found[END_TO_END] - found[TWO_STAGE]).mean()) < 0.03
