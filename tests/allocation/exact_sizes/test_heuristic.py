"""The paper's heuristic as printed, with its flaws, and as repaired; manual priority."""

from collections.abc import Callable

import numpy as np
import pytest

from shadowprice.allocation import (
    NOBODY,
    Plan,
    heuristic_demands,
    literal_heuristic_demands,
    priority_demands,
    solve_demands,
)
from shadowprice.allocation.exact_sizes import METHODS
from shadowprice.allocation.exact_sizes.heuristic import served
from shadowprice.allocation.exact_sizes.plan import SizedProblem
from shadowprice.errors import InvalidProblem


def risk_limited(seed: int, accounts: int = 3000, depth: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lognormal values, demands, and tolerances that leave a plan."""
    random = np.random.default_rng(seed)
    value = random.lognormal(0, 1, (depth, accounts)).astype(np.float32)
    demand = np.full(depth, accounts // depth)
    tolerance = random.permutation(np.repeat(np.arange(depth), demand))
    return value, demand, np.arange(depth)[:, None] <= tolerance


@pytest.mark.parametrize("method", [heuristic_demands, literal_heuristic_demands])
def test_the_account_of_the_largest_printed_h_is_served_first(method: Callable[..., Plan]) -> None:
    # α of 11, 2.5 and 0.02 with quotas of 1, 2 and 1,000 seats: h = (11 + 2.5)/2 · (10 − 4 − 0) = 40.5 of account 0,
    # and (11 + 0.02)/2 · (12 − 0 − 5) = 38.57 of account 1. By α of the best fund alone it is 11 · 7 > 11 · 6.
    value = np.array([[5, 6], [4, 0], [0, 5]], dtype=np.float32)
    value = np.hstack([value, np.tile(np.array([[0], [1 / 1001], [15 / 1001]], dtype=np.float32), 1001)])
    assert method(value, [1, 2, 1000]).segment[:2].tolist() == [0, 2]


@pytest.mark.parametrize("seed", range(5))
def test_plans_are_those_of_algorithm_1_in_loops(seed: int) -> None:
    random = np.random.default_rng(seed)
    value = random.lognormal(0, 1, (4, 60))
    left, waiting, expected = dict(enumerate([24, 12, 14, 10])), set(range(60)), {}
    while waiting:
        contest = {fund: sum(value[fund, i] for i in waiting) / left[fund] for fund in left}
        ranked = {i: sorted(left, key=lambda fund: -value[fund, i]) for i in waiting}
        regret = {}
        for i in waiting:
            a, b, c = (ranked[i] * 3)[:3] if len(left) < 3 else ranked[i][:3]
            gap = 2 * value[a, i] - value[b, i] - (value[c, i] if len(left) > 2 else value[a, i])
            regret[i] = (contest[a] + contest[b]) / 2 * gap
        for i in sorted(waiting, key=lambda i: -regret[i]):
            expected[i] = ranked[i][0]
            waiting.remove(i)
            left[expected[i]] -= 1
            if not left[expected[i]]:
                del left[expected[i]]
                break
    found = literal_heuristic_demands(value, [24, 12, 14, 10]).segment
    assert found.tolist() == [expected[i] for i in range(60)]


def test_as_printed_it_gives_a_forbidden_fund_though_a_plan_exists() -> None:
    # Account 0 may have either fund, account 1 only fund 0.
    value = np.array([[10.0, 5.0], [1.0, 4.0]], dtype=np.float32)
    allowed = np.array([[True, True], [True, False]])
    literal = literal_heuristic_demands(value, [1, 1], allowed)
    assert (literal.status, literal.segment.tolist(), literal.ineligible) == ("violated", [0, 1], 1)
    repaired = heuristic_demands(value, [1, 1], allowed)
    assert (repaired.status, repaired.segment.tolist(), repaired.objective) == ("feasible", [1, 0], 6.0)
    assert solve_demands(value, [1, 1], allowed).objective == 6.0


def test_as_printed_an_ineligible_pair_can_be_the_best() -> None:
    # Every fund that account 0 may have is worth less than the 0 of the forbidden one.
    value = np.array([[-1.0, 1.0], [7.0, 1.0]], dtype=np.float32)
    allowed = np.array([[True, True], [False, True]])
    literal = literal_heuristic_demands(value, [1, 1], allowed)
    assert literal.segment[0] == 1
    assert literal.ineligible == 1
    assert heuristic_demands(value, [1, 1], allowed).segment.tolist() == [0, 1]


def test_risk_limits_are_broken_as_printed_and_leave_accounts_over_when_only_masked() -> None:
    value, demand, allowed = risk_limited(0)
    literal = literal_heuristic_demands(value, demand, allowed)
    assert literal.status == "violated"
    assert literal.ineligible > 30
    masked = served(SizedProblem.of(value, demand, allowed), literal=False)
    assert np.count_nonzero(masked == NOBODY) > 30
    assert allowed[masked[masked != NOBODY], np.flatnonzero(masked != NOBODY)].all()
    repaired = heuristic_demands(value, demand, allowed)
    assert repaired.status == "feasible"


@pytest.mark.parametrize("method", [heuristic_demands, priority_demands])
def test_sizes_and_eligibility_hold_and_the_optimum_is_never_exceeded(method: object) -> None:
    assert callable(method)
    for seed in range(8):
        value, demand, allowed = risk_limited(seed, accounts=400, depth=2 + seed % 4 * 2)
        allowed = allowed[:, : demand.sum()]
        value = value[:, : demand.sum()]
        best = solve_demands(value, demand, allowed)
        if best.status == "infeasible":
            assert method(value, demand, allowed).status == "infeasible"
            continue
        plan: Plan = method(value, demand, allowed)
        assert plan.status == "feasible"
        np.testing.assert_array_equal(np.bincount(plan.segment, minlength=demand.size), demand)
        assert allowed[plan.segment, np.arange(demand.sum())].all()
        assert plan.objective <= best.objective * (1 + 1e-12)
        assert np.isnan(plan.prices).all()


def test_repair_finds_a_plan_exactly_when_there_is_one() -> None:
    answers = set()
    for seed in range(80):
        random = np.random.default_rng(seed)
        depth, accounts = int(random.integers(2, 6)), int(random.integers(3, 40))
        value = random.random((depth, accounts)).astype(np.float32)
        demand = np.bincount(random.integers(0, depth, accounts), minlength=depth)
        allowed = random.random((depth, accounts)) < 0.45
        allowed[random.integers(0, depth, accounts), np.arange(accounts)] = True
        plan, best = heuristic_demands(value, demand, allowed), solve_demands(value, demand, allowed)
        answers.add(plan.status)
        assert (plan.status == "infeasible") == (best.status == "infeasible")
        if plan.status == "infeasible":
            assert plan.shortage is not None
            segments = list(plan.shortage.segments)
            assert demand[segments].sum() == plan.shortage.demanded > plan.shortage.eligible
            assert plan.shortage.eligible == np.count_nonzero(allowed[segments].any(axis=0))
        else:
            np.testing.assert_array_equal(np.bincount(plan.segment, minlength=depth), demand)
            assert allowed[plan.segment, np.arange(accounts)].all()
    assert answers == {"feasible", "infeasible"}


def test_the_heuristic_is_close_to_the_optimum_and_priority_is_not() -> None:
    random = np.random.default_rng(0)
    value = (random.lognormal(0, 1, (4, 3000)) * np.array([[2.0], [1.5], [1.0], [0.7]])).astype(np.float32)
    demand = np.array([1200, 600, 700, 500])
    best = solve_demands(value, demand).objective
    assert 0.98 < heuristic_demands(value, demand).objective / best < 1.0
    assert 0.7 < priority_demands(value, demand).objective / best < 0.97


def test_a_closed_fund_is_not_divided_by_and_two_funds_have_one_alternative() -> None:
    value = np.array([[4, 3, 2, 1], [1, 1, 1, 1]], dtype=np.float32)
    # Who regrets most is served first; fund 0 closes after two and everybody else gets fund 1.
    assert heuristic_demands(value, [2, 2]).segment.tolist() == [0, 0, 1, 1]
    assert heuristic_demands(value, [0, 4]).segment.tolist() == [1, 1, 1, 1]
    assert heuristic_demands(value[:1], [4]).segment.tolist() == [0, 0, 0, 0]


def test_without_rules_the_printed_form_and_the_repaired_one_agree() -> None:
    value, demand, _ = risk_limited(4)
    np.testing.assert_array_equal(
        literal_heuristic_demands(value, demand).segment, heuristic_demands(value, demand).segment
    )


def test_funds_choose_in_order_of_conversion() -> None:
    value = np.array([[3, 2, 1], [9, 8, 1]], dtype=np.float32)
    assert priority_demands(value, [1, 2], conversion=[0.2, 0.1]).segment.tolist() == [0, 1, 1]
    assert priority_demands(value, [1, 2], conversion=[0.1, 0.2]).segment.tolist() == [1, 1, 0]
    # Without history the fund of the highest mean value chooses first.
    assert priority_demands(value, [1, 2]).segment.tolist() == [1, 1, 0]
    with pytest.raises(InvalidProblem, match="conversion"):
        priority_demands(value, [1, 2], conversion=[0.1])


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_refuses_the_same_things(name: str) -> None:
    with pytest.raises(InvalidProblem, match="sum"):
        METHODS[name](np.ones((2, 3), dtype=np.float32), [1, 1])
