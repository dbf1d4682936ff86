"""Incremental amounts: against closed forms, and the coverage of their intervals where the truth is known."""

import doctest

import numpy as np
import pytest
from scipy import optimize, stats

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.policy import incremental
from shadowprice.evaluation.policy.incremental import added, cost_of_one, total

LEVELS = np.array([0.0, 20.0, 50.0])


def market(seed: int, requests: int = 4000) -> tuple[np.random.Generator, np.ndarray, np.ndarray]:
    """Random numbers, true means (3, N) and accounts (N,)."""
    rng = np.random.default_rng(seed)
    accounts = rng.integers(0, requests // 4, requests)
    strength = rng.beta(2, 4, requests // 4)[accounts]
    return rng, np.stack([0.3 * strength, 0.6 * strength, strength]), accounts.astype(str)


def test_the_example_of_the_docstring() -> None:
    assert doctest.testmod(incremental).failed == 0


def test_one_account_per_request_gives_the_textbook_interval_of_a_sum() -> None:
    rng = np.random.default_rng(1)
    y, curve = rng.random(500), np.tile(np.array([[0.1], [0.5]]), 500)
    found = total(added(y, np.ones(500, dtype=int), curve, np.array([1.0, 0.0])), np.arange(500).astype(str))
    squares = (y - 0.5) ** 2
    freedom = squares.sum() ** 2 / (squares**2).sum()
    assert found.value == pytest.approx(y.sum() - 50)
    assert found.high - found.value == pytest.approx(stats.t.ppf(0.975, freedom) * np.sqrt(squares.sum()))


def test_a_wrong_model_is_corrected_by_the_requests_that_drew_a_level() -> None:
    """With the lowest level drawn in a tenth of the requests, the interval covers the truth although the model lies."""
    covered, model_alone = 0, 0
    for seed in range(200):
        rng, truth, account = market(seed)
        rows = np.arange(truth.shape[1])
        level = np.where(rng.random(rows.size) < 0.1, 0, 2)
        propensity = np.where(level == 0, 0.1, 0.9)
        y = (rng.random(rows.size) < truth[level, rows]).astype(float)
        wrong = np.clip(truth * np.array([[2.0], [1.2], [0.8]]), 0, 1)
        right = (0.1 * truth[0] + 0.9 * truth[2] - truth[0]).sum()
        mixture = np.array([1.0, 0.0, 0.0])
        found = total(added(y, level, wrong, mixture, propensity), account)
        covered += found.low <= right <= found.high
        naive = total(added(y, level, wrong, mixture), account)
        model_alone += naive.low <= right <= naive.high
    assert 0.90 <= covered / 200 <= 0.99
    assert model_alone == 0


def test_fiellers_limits_are_where_the_combined_score_stops_differing_from_zero() -> None:
    rng, truth, account = market(3)
    rows = np.arange(truth.shape[1])
    level = np.full(rows.size, 2)
    y = (rng.random(rows.size) < truth[2]).astype(float)
    response = added(y, level, truth, np.array([1.0, 0.0, 0.0]))
    cost = added(50 * y, level, LEVELS[:, None] * truth, np.array([1.0, 0.0, 0.0]))
    found = cost_of_one(cost, response, account)
    assert found.value == pytest.approx(cost.amount.sum() / response.amount.sum())

    def edge(ratio: float) -> float:
        score = cost.amount.sum() - ratio * response.amount.sum()
        sums = np.bincount(np.unique(account, return_inverse=True)[1], cost.residual - ratio * response.residual)
        return score**2 - stats.norm.ppf(0.975) ** 2 * (sums @ sums)

    low = optimize.brentq(edge, found.value * 0.5, found.value)
    high = optimize.brentq(edge, found.value, found.value * 2)
    assert (found.low, found.high) == pytest.approx((low, high), rel=2e-3)


def test_a_response_that_may_be_nothing_has_no_limit_of_its_cost() -> None:
    y = np.array([1.0, 0.0, 0.0, 1.0])
    none = added(y, np.zeros(4, dtype=int), np.full((2, 4), 0.49), np.array([0.0, 1.0]))
    found = cost_of_one(none.times(10), none, np.arange(4).astype(str))
    assert not np.isfinite(found.low)
    assert not np.isfinite(found.high)


def test_a_propensity_of_zero_and_curves_of_another_shape_are_refused() -> None:
    y, level, curve = np.ones(3), np.zeros(3, dtype=int), np.ones((2, 3))
    with pytest.raises(InvalidInput, match="propensity"):
        added(y, level, curve, np.array([1.0, 0.0]), np.array([0.5, 0.0, 1.0]))
    with pytest.raises(InvalidInput, match="curve"):
        added(y, level, curve[:, :2], np.array([1.0, 0.0]))
