import numpy as np
import pytest

from research.data.misspecified import LEVELS, World
from shadowprice.errors import InvalidInput


def test_the_main_effect_is_twenty_times_that_of_the_levels() -> None:
    drawn = World(3).trial(40_000)
    effect = drawn.value - drawn.value[0]
    assert drawn.value[0].std() == pytest.approx(20.0, rel=0.2)
    assert effect.std() == pytest.approx(1.0, rel=0.35)
    assert World(3, nuisance=0.0).trial(1000).value[0].std() == 0.0


def test_outcomes_scatter_around_the_truth_and_levels_are_drawn_evenly() -> None:
    drawn = World(1).trial(40_000)
    frame, here = drawn.frame, (drawn.frame["level"], np.arange(40_000))
    error = frame["response"] - drawn.value[here]
    assert abs(error.mean()) < 4 / np.sqrt(40_000)
    assert error.std() == pytest.approx(1.0, rel=0.02)
    assert frame["cost"].sum() == pytest.approx(drawn.cost[here].sum(), rel=0.01)
    assert (frame["cost"] % 1 == 0).all()
    np.testing.assert_allclose(frame["level"].value_counts(normalize=True), 1 / len(LEVELS), atol=0.01)


def test_what_follows_a_logged_level_is_partly_its_cause() -> None:
    world = World(2, nuisance=0.0)
    for part, biased in ((world.logged(40_000), True), (world.trial(40_000), False)):
        frame = part.frame
        excess = frame["response"] - part.value[frame["level"], np.arange(40_000)]
        gap = excess[frame["level"] == 3].mean() - excess[frame["level"] == 0].mean()
        assert (gap > 0.5) == biased
    assert world.logged(10).frame["propensity"].isna().all()


def test_a_seed_gives_the_same_rows_and_worlds_differ() -> None:
    first, again, other = World(1).trial(50, 4), World(1).trial(50, 4), World(2).trial(50, 4)
    assert first.frame.equals(again.frame)
    assert not np.allclose(first.value, other.value)
    with pytest.raises(InvalidInput, match="nuisance"):
        World(nuisance=-1.0)
    with pytest.raises(InvalidInput, match="rows"):
        World().trial(0)
