"""Laws that hold for every instance, on instances that hypothesis makes up."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shadowprice.allocation import Allocation, Problem, Resource, solve
from shadowprice.decision import decide

LAWS = settings(max_examples=60, deadline=None, derandomize=True)


@st.composite
def instances(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, float]:
    """value (J, N), cost (J, N) with a free first level, and a limit that may or may not bind."""
    depth, accounts = draw(st.integers(1, 6)), draw(st.integers(1, 25))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    steps = draw(st.sampled_from([0, 4, 1000]))
    value, cost = rng.random((depth, accounts)), rng.random((depth, accounts)) * 100
    if steps:
        value, cost = np.round(value * steps) / steps, np.round(cost)
    cost[0] = 0.0
    limit = float(cost.max(axis=0).sum() * draw(st.floats(0.0, 1.2)))
    return value, cost, limit


def total(value: np.ndarray, cost: np.ndarray, limit: float) -> Allocation:
    return solve(Problem(value, [Resource.total("money", cost, limit)]))


def close(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-9 * max(1.0, abs(one), abs(other))


@LAWS
@given(instances(), st.randoms(use_true_random=False))
def test_the_order_of_accounts_does_not_matter(instance: tuple[np.ndarray, np.ndarray, float], random: object) -> None:
    value, cost, limit = instance
    order = np.array(sorted(range(value.shape[1]), key=lambda _: random.random()))  # type: ignore[attr-defined]
    one, other = total(value, cost, limit), total(value[:, order], cost[:, order], limit)
    assert close(one.primal, other.primal)
    assert close(one.dual, other.dual)
    assert close(one.spend[0], other.spend[0])
    assert close(one.prices[0], other.prices[0])
    if one.tied <= 1:
        np.testing.assert_array_equal(one.level[order], other.level)


@LAWS
@given(instances(), st.randoms(use_true_random=False))
def test_the_order_of_levels_does_not_matter(instance: tuple[np.ndarray, np.ndarray, float], random: object) -> None:
    value, cost, limit = instance
    order = np.array(sorted(range(value.shape[0]), key=lambda _: random.random()))  # type: ignore[attr-defined]
    one, other = total(value, cost, limit), total(value[order], cost[order], limit)
    assert close(one.primal, other.primal)
    assert close(one.dual, other.dual)
    assert close(one.prices[0], other.prices[0])
    assert close(one.spend[0], other.spend[0])
    assert close(one.rounded, other.rounded)


@LAWS
@given(instances(), st.floats(1e-3, 1e3))
def test_the_unit_of_money_does_not_matter(instance: tuple[np.ndarray, np.ndarray, float], unit: float) -> None:
    value, cost, limit = instance
    one, other = total(value, cost, limit), total(value, cost * unit, limit * unit)
    assert close(one.primal, other.primal)
    assert close(one.spend[0], other.spend[0] / unit)
    assert close(one.prices[0], other.prices[0] * unit)


@LAWS
@given(instances(), st.floats(1.0, 3.0))
def test_more_money_never_buys_less_and_each_unit_buys_less_than_the_one_before(
    instance: tuple[np.ndarray, np.ndarray, float], more: float
) -> None:
    value, cost, limit = instance
    poor, rich = total(value, cost, limit), total(value, cost, limit * more)
    assert rich.primal >= poor.primal - 1e-9
    assert rich.prices[0] <= poor.prices[0] * (1 + 1e-9)
    # λ is the slope of value in budget: the extra value lies between the two prices.
    extra = limit * more - limit
    assert rich.primal - poor.primal <= poor.prices[0] * extra + 1e-9
    assert rich.primal - poor.primal >= rich.prices[0] * extra - 1e-9


@LAWS
@given(instances(), st.lists(st.floats(1e-6, 0.1), min_size=2, max_size=6), st.floats(0.0, 1.0))
def test_spend_falls_as_the_price_rises(
    instance: tuple[np.ndarray, np.ndarray, float], prices: list[float], share: float
) -> None:
    value, cost, _ = instance
    names = [f"request-{i}" for i in range(value.shape[1])]
    columns = np.arange(value.shape[1])
    spends = [cost[decide(value, cost, [price], share, names).level, columns].sum() for price in sorted(prices)]
    assert all(later <= earlier + 1e-6 for earlier, later in pairwise(spends))


@LAWS
@given(instances())
def test_the_decision_rule_at_the_price_is_the_solution(instance: tuple[np.ndarray, np.ndarray, float]) -> None:
    value, cost, limit = instance
    solved = total(value, cost, limit)
    names = list(range(value.shape[1]))
    columns = np.arange(value.shape[1])
    cheap = decide(value, cost, solved.prices, 0.0, names).level
    dear = decide(value, cost, solved.prices, 1.0, names).level
    share = solved.tie_share
    spend = (1 - share) * cost[cheap, columns].sum() + share * cost[dear, columns].sum()
    worth = (1 - share) * value[cheap, columns].sum() + share * value[dear, columns].sum()
    assert close(spend, solved.spend[0])
    assert close(worth, solved.primal)
    # Complementary slackness: a budget with a price is used up.
    assert solved.prices[0] == 0 or close(spend, limit)
