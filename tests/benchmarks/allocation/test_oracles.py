"""Oracles against the engine: the same optimum, and never more than they can prove."""

from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.allocation.oracles.breakpoints import solve_breakpoints
from benchmarks.allocation.oracles.highs import solve_highs_lp
from benchmarks.allocation.oracles.lbfgs import solve_lbfgs
from shadowprice.allocation import Allocation, Problem, Resource, on_response, solve
from shadowprice.allocation.solvers.partition import solve_partition

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


@pytest.mark.parametrize("method", [solve_breakpoints, solve_highs_lp, solve_partition])
@pytest.mark.parametrize("form", ["total", "per_account", "per_response"])
def test_exact_methods_find_the_optimum_of_one_budget(method: Callable[[Problem], Allocation], form: str) -> None:
    for seed in range(12):
        problem = one_budget(seed, form)
        solved, reference = method(problem), solve(problem)
        assert solved.status == reference.status == "optimal"
        assert solved.primal == pytest.approx(reference.primal, rel=1e-9)
        assert solved.dual == pytest.approx(reference.dual, rel=1e-9)
        assert solved.violation <= 1e-9
        assert solved.prices[0] == pytest.approx(reference.prices[0], rel=1e-6, abs=1e-12)
        assert solved.rounded <= reference.dual * (1 + 1e-9)


@pytest.mark.parametrize("make", [one_budget, several])
def test_the_smoothed_dual_comes_near_and_reports_its_real_gap(make: Callable[[int], Problem]) -> None:
    for seed in range(6):
        problem = make(seed)
        solved, optimum = solve_lbfgs(problem), solve(problem)
        scale = abs(optimum.primal)
        assert solved.dual >= optimum.primal - 1e-9 * scale
        assert solved.primal <= optimum.primal + 1e-9 * scale
        assert solved.gap >= (optimum.primal - solved.primal) / abs(solved.dual) - 1e-9
        assert (solved.status == "optimal") == (abs(solved.gap) <= 1e-9)
        assert solved.violation <= 1e-9
        assert solved.rounded_violation <= 1e-9
        assert -1e-9 <= solved.gap <= 2e-2, (seed, solved.gap)


def test_highs_agrees_on_several_limits_of_every_sense() -> None:
    for seed in range(8):
        problem = several(seed)
        rng = np.random.default_rng(seed)
        floor = Resource.total("floor", LEVELS, rng.uniform(1, 5) * 60, sense="at_least")
        exactly = Resource.total("exactly", rng.random((LEVELS.size, 60)), 0.5 * 60, sense="exactly")
        problem = Problem(problem.value, [*problem.resources, floor, exactly])
        reference, solved = solve_highs_lp(problem), solve(problem)
        assert reference.status == solved.status == "optimal", seed
        assert solved.primal == pytest.approx(reference.primal, rel=1e-9)
        assert reference.gap == pytest.approx(0, abs=1e-8)
        assert reference.violation <= 1e-8


@pytest.mark.parametrize("method", [solve, solve_partition, solve_breakpoints, solve_highs_lp, solve_lbfgs])
def test_an_impossible_budget_is_infeasible(method: Callable[[Problem], Allocation]) -> None:
    problem = Problem(np.array([[0.1, 0.2], [0.3, 0.4]]), [Resource.total("money", np.array([5, 9]), 9.0)])
    solved = method(problem)
    assert solved.status == "infeasible"
    assert np.isnan(solved.prices).all()
    assert solved.violation == pytest.approx(10 / 9 - 1)
