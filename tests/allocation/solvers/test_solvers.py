"""The named alternatives: the same interface, their own certified gaps, never more than they can prove."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from shadowprice.allocation import Allocation, Problem, Resource, draw_levels, on_response, solve
from shadowprice.allocation.solvers import SOLVERS
from shadowprice.errors import InvalidProblem, MissingExtra

LEVELS = np.array([0, 20, 50, 90])


def one_budget(seed: int, form: str = "total", accounts: int = 50) -> Problem:
    rng = np.random.default_rng(seed)
    value = np.sort(rng.random((LEVELS.size, accounts)), axis=0)
    limit = rng.uniform(2, 40)
    if form == "total":
        return Problem(value, [Resource.total("money", on_response(LEVELS), limit * accounts)])
    if form == "per_account":
        return Problem(value, [Resource.per_account("money", LEVELS, limit)])
    return Problem(value, [Resource.per_response("money", on_response(LEVELS), limit, value)])


def several(seed: int, accounts: int = 60) -> Problem:
    rng = np.random.default_rng(seed)
    value = np.sort(rng.random((LEVELS.size, accounts)), axis=0)
    groups = rng.random((2, accounts)) < 0.6
    return Problem(
        value,
        [
            Resource.per_account("all", LEVELS, rng.uniform(15, 30)),
            Resource.total("north", on_response(LEVELS), rng.uniform(5, 10) * accounts, groups[0]),
            Resource.total("visits", rng.random((LEVELS.size, accounts)), 0.3 * accounts, groups[1]),
        ],
    )


def check_certificate(problem: Problem, solved: Allocation) -> None:
    """Nothing is claimed that cannot be checked: the bound is the dual at the prices or lies above the optimum."""
    optimum = solve(problem)
    scale = abs(optimum.primal)
    assert solved.dual >= optimum.primal - 1e-9 * scale
    if solved.violation <= 1e-9:
        assert solved.primal <= optimum.primal + 1e-9 * scale
        assert solved.gap >= (optimum.primal - solved.primal) / abs(solved.dual) - 1e-9
    assert (solved.status == "optimal") == (abs(solved.gap) <= 1e-9 and solved.violation <= 1e-9)
    assert solved.rounded_violation <= 1e-9
    assert solved.rounded <= optimum.dual + 1e-9 * scale


@pytest.mark.parametrize("name", ["bisection", "breakpoints", "highs_lp", "partition"])
@pytest.mark.parametrize("form", ["total", "per_account", "per_response"])
def test_exact_alternatives_find_the_optimum_of_one_budget(name: str, form: str) -> None:
    for seed in range(12):
        problem = one_budget(seed, form)
        mine, reference = solve(problem, solver=name), solve(problem)
        assert mine.status == reference.status == "optimal"
        assert mine.primal == pytest.approx(reference.primal, rel=1e-9)
        assert mine.dual == pytest.approx(reference.dual, rel=1e-9)
        assert mine.violation <= 1e-9
        assert mine.prices[0] == pytest.approx(reference.prices[0], rel=1e-6, abs=1e-12)
        assert mine.rounded <= reference.dual * (1 + 1e-9)


@pytest.mark.parametrize(("name", "reach"), [("lbfgs", 2e-2), ("dual_ascent", 5e-2), ("highs_milp", 1e-9)])
@pytest.mark.parametrize("make", [one_budget, several])
def test_approximate_alternatives_come_near_and_report_their_real_gap(name: str, reach: float, make: object) -> None:
    for seed in range(6):
        problem = make(seed)  # type: ignore[operator]
        solved = solve(problem, solver=name)
        if name != "highs_milp":
            check_certificate(problem, solved)
        assert solved.violation <= 1e-9, seed
        assert -1e-9 <= solved.gap <= reach, (seed, solved.gap)


def test_the_best_whole_answer_lies_between_the_rounded_one_and_the_bound() -> None:
    for seed in range(6):
        problem = one_budget(seed, accounts=20)
        best, mine = solve(problem, solver="highs_milp"), solve(problem)
        assert mine.rounded <= best.primal + 1e-9
        assert best.primal <= mine.dual + 1e-9
        assert best.primal == pytest.approx(float(problem.value[best.level, np.arange(20)].sum()), rel=1e-12)


def test_highs_agrees_with_the_boxes_on_several_limits_of_every_sense() -> None:
    for seed in range(8):
        problem = several(seed)
        rng = np.random.default_rng(seed)
        floor = Resource.total("floor", LEVELS, rng.uniform(1, 5) * 60, sense="at_least")
        exactly = Resource.total("exactly", rng.random((LEVELS.size, 60)), 0.5 * 60, sense="exactly")
        problem = Problem(problem.value, [*problem.resources, floor, exactly])
        reference, mine = solve(problem, solver="highs_lp"), solve(problem)
        assert reference.status == mine.status == "optimal", seed
        assert mine.primal == pytest.approx(reference.primal, rel=1e-9)
        assert reference.gap == pytest.approx(0, abs=1e-8)
        assert reference.violation <= 1e-8
        check = draw_levels(problem, reference, [str(i) for i in range(60)])
        whole = np.ones(60, dtype=bool)
        whole[reference.fractional.account] = False
        np.testing.assert_array_equal(check[whole], reference.level[whole])


@pytest.mark.parametrize("name", sorted(set(SOLVERS) - {"dual_ascent", "lbfgs"}))
def test_an_impossible_budget_is_infeasible_for_all_who_can_tell(name: str) -> None:
    problem = Problem(np.array([[0.1, 0.2], [0.3, 0.4]]), [Resource.total("money", np.array([5, 9]), 9.0)])
    solved = solve(problem, solver=name)
    assert solved.status == "infeasible"
    assert np.isnan(solved.prices).all()
    assert solved.violation == pytest.approx(10 / 9 - 1)


@pytest.mark.parametrize("name", ["dual_ascent", "lbfgs"])
def test_a_budget_that_binds_nobody_has_no_price(name: str) -> None:
    problem = Problem(np.array([[0.1, 0.2], [0.3, 0.4]]), [Resource.total("money", np.array([5, 9]), 99.0)])
    solved = solve(problem, solver=name)
    assert (solved.status, solved.primal, solved.tie_share) == ("optimal", pytest.approx(0.7), 0.0)


def test_a_wide_bisection_is_called_approximate_and_a_narrow_one_optimal() -> None:
    problem = one_budget(3)
    wide, narrow = solve(problem, solver="bisection", tolerance=0.2), solve(problem, solver="bisection")
    assert (wide.status, narrow.status) == ("approximate", "optimal")
    assert wide.gap > 1e-6
    assert wide.violation <= 0
    assert wide.primal < narrow.primal <= wide.dual


def test_a_lower_temperature_comes_closer() -> None:
    for problem in (one_budget(5, accounts=400), several(0, 200)):
        warm, cold = (solve(problem, solver="lbfgs", temperature=t).gap for t in (0.1, 1e-4))
        assert cold < 0.3 * warm


def test_more_steps_of_dual_ascent_come_closer() -> None:
    few, many = (solve(several(2, 200), solver="dual_ascent", steps=steps).gap for steps in (3, 1000))
    assert many < 0.3 * few


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("lbfgs", "temperature", 0.0),
        ("lbfgs", "stages", 0),
        ("dual_ascent", "steps", 0),
        ("dual_ascent", "step", -1.0),
        ("highs_lp", "method", "guess"),
        ("bisection", "temperature", 1.0),
    ],
)
def test_a_bad_option_is_named(name: str, option: str, value: object) -> None:
    with pytest.raises(InvalidProblem) as caught:
        solve(one_budget(0), solver=name, **{option: value})  # type: ignore[arg-type]
    assert caught.value.field == option


@pytest.mark.parametrize(("name", "module"), [("highs_lp", "highspy"), ("highs_milp", "highspy"), ("lbfgs", "scipy")])
def test_what_is_not_installed_is_named_with_its_extra(name: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, f"{module}.optimize", None)
    with pytest.raises(MissingExtra, match=r"shadowprice\[solvers\]"):
        solve(one_budget(0), solver=name)


@pytest.mark.parametrize("name", ["interval", "breakpoints", "bisection", "highs_lp"])
def test_drawn_levels_spend_the_budget_in_expectation_where_many_are_alike(name: str) -> None:
    # Eight kinds of customer, each a hundred times: at the price whole kinds tie.
    rng = np.random.default_rng(7)
    value = np.repeat(np.sort(rng.random((LEVELS.size, 8)), axis=0), 100, axis=1)
    problem = Problem(value, [Resource.per_account("money", LEVELS, 11.0)])
    solved = solve(problem, solver=name)
    draws = 60
    spend = np.empty(draws)
    for draw in range(draws):
        ids = [f"{draw}-{i}" for i in range(800)]
        level = draw_levels(problem, solved, ids)
        np.testing.assert_array_equal(level, draw_levels(problem, solved, ids))
        spend[draw] = LEVELS[level].mean()
    assert solved.spend[0] / 800 == pytest.approx(11.0, rel=1e-9)
    if name == "highs_lp":  # a vertex splits one account at most
        assert abs(spend.mean() - 11.0) <= 90 / 800
    else:
        assert spend.std() > 0.1  # whole levels, drawn for each
        assert abs(spend.mean() - 11.0) <= 4 * spend.std() / draws**0.5


def test_an_infeasible_allocation_and_missing_ids_are_refused() -> None:
    problem = Problem(np.array([[0.1, 0.2], [0.3, 0.4]]), [Resource.total("money", np.array([5, 9]), 9.0)])
    with pytest.raises(InvalidProblem, match="allocation"):
        draw_levels(problem, solve(problem), ["a", "b"])
    fine = one_budget(0)
    with pytest.raises(Exception, match="request_ids"):
        draw_levels(fine, solve(fine), ["a"])
