"""Moves between campaigns: none beyond noise where all return the same, and the cheapest money first."""

import numpy as np
import pytest
from scipy import stats

from shadowprice.allocation.portfolio.moves import FALSE_MOVES, Band, Standing, bands, plan_moves
from shadowprice.errors import InvalidInput

RUNS = 40_000


def share_of_moves(price: list[float], seed: int, rate: float = FALSE_MOVES, curve_error: float = 0.3) -> float:
    """Share of runs in which the intervals of any two campaigns are disjoint; errors of sample and curves are drawn."""
    rng, true = np.random.default_rng(seed), np.array(price)
    sample, curves = rng.uniform(0, 0.1, true.size), rng.uniform(0, curve_error, true.size)
    seen = true * (1 + curves * rng.standard_normal((RUNS, true.size)))
    seen += sample * rng.standard_normal(seen.shape)
    half = stats.norm.ppf(0.975) * sample
    low, high = bands(seen, seen - half, seen + half, 0.95, curves, rate)
    return float((low.max(axis=1) > high.min(axis=1)).mean())


@pytest.mark.parametrize("campaigns", [2, 5, 30])
def test_where_all_return_the_same_a_run_moves_anything_with_the_stated_probability_at_most(campaigns: int) -> None:
    alike = [1.0] * campaigns
    assert max(share_of_moves(alike, seed) for seed in range(4)) <= FALSE_MOVES
    # At a rate that is not small there are false moves, so the bound is no empty one.
    assert 0.02 < share_of_moves(alike, 0, rate=0.9) <= 0.9


def test_a_difference_that_is_there_is_found() -> None:
    assert share_of_moves([1.0, 1.0, 1.0, 1.0, 3.0], 0, curve_error=0.15) > 0.95


def test_an_interval_holds_the_prices_from_which_the_observed_one_is_not_far() -> None:
    rng = np.random.default_rng(0)
    seen, sample, error = rng.uniform(0.1, 2, 50), rng.uniform(0, 0.5, 50), rng.uniform(0, 0.6, 50)
    half = stats.norm.ppf(0.95) * sample
    low, high = bands(seen, seen - half, seen + half, 0.9, error, rate=0.5)
    wide = stats.norm.ppf(1 - 0.5 / 50 / 2)
    prices = np.linspace(0, 40, 100_001)
    for place in range(50):
        near = np.abs(seen[place] - prices) <= wide * np.hypot(sample[place], error[place] * prices)
        assert prices[near].min() == pytest.approx(max(low[place], 0), abs=5e-4)
        if high[place] < 39:
            assert prices[near].max() == pytest.approx(high[place], abs=5e-4)
        else:
            assert near[-1]
    assert np.isinf(high).any()
    nothing = bands([0.0, 1.0], [0.0, 0.9], [0.0, np.inf], 0.9, 0.1)
    assert (nothing[0][0], nothing[1].tolist()) == (0, [0, np.inf])
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        bands([1.0], [1.0], [1.0], 0.95, 0.0, rate=0)


def standing(name: str, price: float, surplus: int = 0, need: int = 0, half: float = 0.01) -> Standing:
    return Standing(name=name, price=Band(price, price - half, price + half), surplus=surplus, need=need)


def test_the_cheapest_money_goes_first_to_where_it_gains_most_and_each_gives_once() -> None:
    found = plan_moves(
        [
            standing("a", 0.1, surplus=300),
            standing("b", 0.2, surplus=500),
            standing("c", 0.5, need=400),
            standing("d", 0.4, need=1_000),
        ]
    )
    assert [(move.source.name, move.target.name, move.amount) for move in found] == [("a", "c", 300), ("b", "d", 500)]


def test_campaigns_whose_intervals_overlap_move_nothing() -> None:
    assert plan_moves([standing("a", 0.1, surplus=300, half=0.06), standing("b", 0.2, need=300, half=0.05)]) == []
    assert plan_moves([standing("a", 0.1, surplus=300, half=np.inf), standing("b", 0.2, need=300)]) == []
    assert plan_moves([]) == []
