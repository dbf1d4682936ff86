"""Seats given out one request at a time, against the plan that saw everybody."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from shadowprice.allocation import NOBODY, SegmentQuota, heuristic_demands, solve_demands
from shadowprice.decision import decide
from shadowprice.errors import InvalidInput


def population(seed: int, accounts: int, depth: int, masked: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    value = random.random((depth, accounts)).astype(np.float32)
    seat = random.integers(0, depth, accounts)
    demand = np.bincount(seat, minlength=depth)
    tolerance = np.maximum(
        random.permutation(seat), random.integers(0, depth, accounts) * (random.random(accounts) < 0.3)
    )
    allowed = np.arange(depth)[:, None] <= tolerance if masked else np.ones(value.shape, dtype=bool)
    return value, demand, allowed


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 5), st.booleans(), st.sampled_from(["same", "any"])
)
def test_sizes_come_out_exactly_and_nobody_above_their_tolerance_whatever_the_order(
    seed: int, accounts: int, depth: int, masked: bool, values: str
) -> None:
    value, demand, allowed = population(seed, accounts, depth, masked)
    plan = solve_demands(value, demand, allowed)
    if plan.status == "infeasible":
        return
    random = np.random.default_rng(seed)
    quota = SegmentQuota.of(plan, np.arange(accounts))
    np.testing.assert_array_equal(quota.remaining, demand)
    # What is asked with need not be what was planned with.
    asked = value if values == "same" else random.random(value.shape)
    placed = np.full(accounts, NOBODY)
    for batch in np.array_split(random.permutation(accounts), 3):
        placed[batch] = quota.decide(asked[:, batch], batch)
        counts = np.bincount(placed[placed >= 0], minlength=depth)
        assert (counts <= demand).all()
        np.testing.assert_array_equal(quota.remaining, demand - counts)
    np.testing.assert_array_equal(np.bincount(placed, minlength=depth), demand)
    assert allowed[placed, np.arange(accounts)].all()
    # An independent optimum: the Hungarian method on one column per place.
    seat = np.repeat(np.arange(depth), demand)
    cost = np.where(allowed[seat], -value[seat].astype(np.float64), 1e9)
    best = -cost[linear_sum_assignment(cost)].sum()
    earned = value.astype(np.float64)[placed, np.arange(accounts)].sum()
    assert earned <= best + 1e-6
    if values == "same":
        assert earned == pytest.approx(best, abs=1e-6)


def test_a_quota_holds_what_its_plan_allows_and_takes_nothing_else() -> None:
    """Three segments of rising risk; the guide's call, which names no mask, cannot place anybody above it."""
    value, demand, allowed = population(7, 20_000, 3, masked=True)
    plan = solve_demands(value, demand, allowed)
    rich = np.arange(3.0)[:, None] * 10 + value
    order = np.random.default_rng(0).permutation(20_000)
    placed = np.empty(20_000, dtype=int)
    placed[order] = SegmentQuota.of(plan, np.arange(20_000)).decide(rich[:, order], order)
    assert allowed[placed, np.arange(20_000)].all()
    np.testing.assert_array_equal(np.bincount(placed, minlength=3), demand)
    for call in (SegmentQuota.of, SegmentQuota.decide):
        assert "allowed" not in inspect.signature(call).parameters


def test_one_at_a_time_is_the_same_as_all_at_once() -> None:
    value, demand, allowed = population(3, 300, 4, masked=True)
    plan = solve_demands(value, demand, allowed)
    assert plan.status == "optimal"
    order = np.random.default_rng(0).permutation(300)
    together = SegmentQuota.of(plan, np.arange(300)).decide(value[:, order], order.tolist())
    single = SegmentQuota.of(plan, np.arange(300))
    alone = [single.decide(value[:, [i]], [int(i)])[0] for i in order]
    np.testing.assert_array_equal(together, alone)


def test_at_the_plans_own_prices_the_decision_is_the_rule_and_the_plan() -> None:
    value, demand, allowed = population(1, 2000, 5, masked=True)
    plan = solve_demands(value, demand, allowed)
    assert plan.status == "optimal"
    made = SegmentQuota.of(plan, np.arange(2000)).decide(value, np.arange(2000))
    np.testing.assert_array_equal(made, plan.segment)
    price = np.broadcast_to(plan.prices[:, None], value.shape)
    np.testing.assert_array_equal(decide(value, price, [1.0], 0.0, np.arange(2000), allowed).level, made)


def test_prices_of_yesterday_earn_nearly_the_optimum_of_today() -> None:
    yesterday, demand, _ = population(10, 20_000, 6, masked=False)
    today = population(11, 20_000, 6, masked=False)[0]
    quota = SegmentQuota.of(solve_demands(yesterday, demand), np.arange(20_000))
    made = quota.decide(today, np.arange(20_000))
    best = solve_demands(today, demand).objective
    earned = float(today.astype(float)[made, np.arange(20_000)].sum())
    np.testing.assert_array_equal(np.bincount(made, minlength=6), demand)
    # Prices are off by one part in √N, and the last to come take what is left.
    assert 0.99 * best < earned < best


def test_an_account_nobody_planned_for_gets_nothing_and_takes_no_seat() -> None:
    value = np.array([[3.0, 1.0], [1.0, 3.0]], dtype=np.float32)
    allowed = np.array([[True, False], [True, True]])
    quota = SegmentQuota.of(solve_demands(value, [1, 1], allowed), ["a", "b"])
    assert quota.decide([[9.0], [0.0]], ["x"]).tolist() == [NOBODY]
    assert quota.remaining.tolist() == [1, 1]
    assert quota.decide(value[:, [1, 0, 1]], ["b", "a", "b"]).tolist() == [1, 0, 1]
    # Who asks again has the place already.
    assert quota.decide(value[::-1], ["a", "b"]).tolist() == [0, 1]
    assert quota.remaining.tolist() == [0, 0]


def test_what_makes_no_sense_is_refused_by_name() -> None:
    value = np.ones((2, 2), dtype=np.float32)
    with pytest.raises(InvalidInput, match="plan: needs a plan with prices"):
        SegmentQuota.of(heuristic_demands(value, [1, 1]), ["a", "b"])
    plan = solve_demands(value, [1, 1])
    for accounts in (["a"], ["a", "a"]):
        with pytest.raises(InvalidInput, match="account_id: must be 2 different accounts"):
            SegmentQuota.of(plan, accounts)
    quota = SegmentQuota.of(plan, ["a", "b"])
    for wrong in (
        lambda: quota.decide(np.ones((3, 1)), ["a"]),
        lambda: quota.decide(np.ones((2, 2)), ["a"]),
        lambda: quota.decide(np.full((2, 1), np.nan), ["a"]),
    ):
        with pytest.raises(InvalidInput):
            wrong()
    assert quota.remaining.tolist() == [1, 1]
