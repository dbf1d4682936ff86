"""Several limits: laws that hold for every instance, whole answers against all of them, and inputs of some size."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.allocation.oracles.dense import Dense
from benchmarks.allocation.oracles.highs import solve_highs_lp
from shadowprice.allocation import Allocation, Problem, Resource, on_response, solve
from shadowprice.decision import decide
from shadowprice.errors import InvalidProblem

LAWS = settings(max_examples=40, deadline=None, derandomize=True)
LEVELS = np.arange(1, 11) * 20
ACCOUNTS = 12_000


@st.composite
def instances(draw: st.DrawFn) -> Problem:
    """Two to four budgets over overlapping groups, of one money or of several, with a free first level."""
    depth, accounts, rows = draw(st.integers(2, 5)), draw(st.integers(2, 20)), draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    steps = draw(st.sampled_from([0, 4]))
    value, money = rng.random((depth, accounts)), rng.random((depth, accounts)) * 100
    if steps:
        value, money = np.round(value * steps) / steps, np.round(money)
    many = draw(st.booleans())
    resources = []
    for k in range(rows):
        cost = rng.random((depth, accounts)) * 100 if many else money.copy()
        cost[0] = 0.0
        members = rng.random(accounts) < 0.7
        limit = float((cost.max(axis=0) * members).sum() * draw(st.floats(0.0, 0.8)))
        resources.append(Resource.total(f"row {k}", cost, limit, members))
    return Problem(value, resources)


def remade(problem: Problem, order: np.ndarray, unit: float = 1.0) -> Problem:
    """The same problem with its accounts in another order and its money in another unit."""
    resources = [
        Resource.total(
            each.name, np.asarray(each.cost)[:, order] * unit, each.limit * unit, problem.members(each)[order]
        )
        for each in problem.resources
    ]
    return Problem(problem.value[:, order], resources)


def close(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-9 * max(1.0, abs(one), abs(other))


@LAWS
@given(instances(), st.randoms(use_true_random=False))
def test_the_order_of_accounts_does_not_matter(problem: Problem, random: object) -> None:
    order = np.array(sorted(range(problem.shape[1]), key=lambda _: random.random()))  # type: ignore[attr-defined]
    one, other = solve(problem), solve(remade(problem, order))
    assert close(one.primal, other.primal)
    assert close(one.dual, other.dual)


@LAWS
@given(instances(), st.sampled_from([1e-6, 0.01, 3.0, 1e6]))
def test_the_unit_of_money_does_not_matter(problem: Problem, unit: float) -> None:
    one, other = solve(problem), solve(remade(problem, np.arange(problem.shape[1]), unit))
    assert close(one.primal, other.primal)
    assert close(
        float(other.prices @ [r.limit * unit for r in problem.resources]),
        float(one.prices @ [r.limit for r in problem.resources]),
    )


@LAWS
@given(instances())
def test_whole_levels_keep_every_cap_and_a_vertex_splits_at_most_k_accounts(problem: Problem) -> None:
    solved = solve(problem)
    at = np.arange(problem.shape[1])
    for resource, paid in zip(problem.resources, Dense.of(problem).paid, strict=True):
        spent = paid[solved.level, at].sum()
        assert spent <= resource.limit * (1 + 1e-9) + 1e-9
    assert solved.rounded_violation <= 0
    assert solved.rounded <= solved.dual + 1e-9
    split, counts = np.unique(solved.fractional.account, return_counts=True)
    assert split.size <= len(problem.resources)
    assert (counts >= 2).all()
    for account in split:
        assert solved.fractional.share[solved.fractional.account == account].sum() == pytest.approx(1.0)


@LAWS
@given(instances())
def test_the_decision_rule_at_the_prices_is_the_solution_but_for_the_ties(problem: Problem) -> None:
    solved = solve(problem)
    value = problem.value.astype(float)
    cost = Dense.of(problem).paid
    names, at = list(range(problem.shape[1])), np.arange(problem.shape[1])
    cheap = decide(value, cost, solved.prices, 0.0, names)
    dear = decide(value, cost, solved.prices, 1.0, names)
    assert np.count_nonzero(cheap.tied) == solved.tied
    # Everyone's charge and value come together to the bound, tied or not.
    for levels in (cheap.level, dear.level):
        score = value[levels, at] - np.tensordot(solved.prices, cost, axes=1)[levels, at]
        bound = float(solved.prices @ [resource.limit for resource in problem.resources]) + score.sum()
        assert close(bound, solved.dual)
    # The published share keeps every budget in expectation, where the cheap ends do.
    share = solved.tie_share
    low, high = cost[:, cheap.level, at].sum(axis=1), cost[:, dear.level, at].sum(axis=1)
    limits = np.array([resource.limit for resource in problem.resources])
    kept = low <= limits * (1 + 1e-9) + 1e-9
    assert ((low + share * (high - low))[kept] <= limits[kept] * (1 + 1e-9) + 1e-9).all()


def population(kind: str, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    value = np.sort(random.random((LEVELS.size, ACCOUNTS), dtype=np.float32), axis=0)
    if kind == "sorted":
        value = value[:, np.argsort(value[4])]
    elif kind == "clustered":
        value = np.repeat(value[:, :30], ACCOUNTS // 30, axis=1)
    elif kind == "few types":
        value = np.ascontiguousarray(value[:, random.integers(0, 5, ACCOUNTS)])
    return value


def limits(kind: str, value: np.ndarray) -> list[Resource]:
    random = np.random.default_rng(5)
    paid = on_response(LEVELS)
    total = Resource.total("all", paid, 20.0 * ACCOUNTS)
    groups = [random.random(ACCOUNTS) < 0.3 for _ in range(5)]
    if kind == "groups":
        return [
            total,
            *(Resource.total(f"g{k}", on_response(LEVELS), (14.0 + k) * g.sum(), g) for k, g in enumerate(groups)),
        ]
    if kind == "regions":
        regions = np.array_split(np.arange(ACCOUNTS), 6)
        return [
            total,
            *(Resource.per_account(f"r{k}", on_response(LEVELS), 15.0 + k, g) for k, g in enumerate(regions)),
        ]
    if kind == "ratios":
        return [
            Resource.per_response(f"b{k}", on_response(LEVELS), 60.0 + 5 * k, value, g) for k, g in enumerate(groups)
        ]
    if kind == "costs":
        steps = np.arange(LEVELS.size)[:, None]
        costs = [(random.random(value.shape) * steps).astype(np.float32) for _ in range(3)]
        return [Resource.total(f"c{k}", cost, 2.0 * ACCOUNTS) for k, cost in enumerate(costs)]
    floor = Resource.total("floor", on_response(LEVELS), 22.0 * groups[0].sum(), groups[0], sense="at_least")
    exact = Resource.total("exact", LEVELS, 90.0 * groups[1].sum(), groups[1], sense="exactly")
    return [total, floor, exact]


def assert_proven(problem: Problem, solved: Allocation) -> None:
    """The prices bound every answer by the optimum that is claimed; computed from nothing but the definition."""
    bound, _ = Dense.of(problem).bound(solved.prices)
    assert bound == pytest.approx(solved.dual, rel=1e-11)
    assert abs(solved.primal - bound) <= 1e-9 * abs(bound)
    assert solved.violation <= 0


@pytest.mark.parametrize("kind", ["random", "sorted", "clustered", "few types"])
@pytest.mark.parametrize("form", ["groups", "regions", "ratios", "costs", "floor and equality"])
def test_a_larger_population_is_solved_to_a_proven_optimum(kind: str, form: str) -> None:
    value = population(kind)
    problem = Problem(value, limits(form, value))
    solved = solve(problem)
    assert solved.status == "optimal"
    assert_proven(problem, solved)
    if form != "floor and equality":
        assert solved.rounded_violation <= 0
        assert -1e-12 <= solved.rounded_gap <= 1e-3
    else:
        assert solved.prices[1] <= 0
        assert abs(solved.rounded_violation) <= 1e-3


def test_a_mask_is_kept_and_a_price_that_is_near_changes_nothing() -> None:
    value = population("random")
    allowed = np.random.default_rng(1).random(value.shape) < 0.6
    allowed[0] = True
    problem = Problem(value, limits("groups", value), allowed)
    solved = solve(problem)
    assert allowed[solved.level, np.arange(ACCOUNTS)].all()
    again = solve(problem, near=solved.prices * 1.03)
    assert again.primal == pytest.approx(solved.primal, rel=1e-12)
    np.testing.assert_allclose(again.prices, solved.prices, rtol=1e-9, atol=1e-15)


def test_contradictions_name_the_rows_and_a_limit_at_the_edge_is_met() -> None:
    value = population("random")
    total, few = Resource.total("all", on_response(LEVELS), 20.0 * ACCOUNTS), np.arange(0, ACCOUNTS, 100)
    least = float((LEVELS[0] * value[0, few].astype(float)).sum())

    def group(limit: float) -> Allocation:
        return solve(Problem(value, [total, Resource.total("group", on_response(LEVELS), limit, few)]))

    impossible = group(0.9 * least)
    assert (impossible.status, impossible.conflict) == ("infeasible", ("group",))
    assert impossible.violation == pytest.approx(1 / 0.9 - 1)
    edge = group(least)
    assert edge.status == "optimal"
    assert edge.violation <= 0
    floor = Resource.total("floor", on_response(LEVELS), 21.0 * ACCOUNTS, sense="at_least")
    between = solve(Problem(value, [total, floor, Resource.total("group", on_response(LEVELS), 20.0 * few.size, few)]))
    assert (between.status, set(between.conflict)) == ("infeasible", {"all", "floor"})
    assert np.isnan(between.prices).all()


def test_a_price_moves_between_limits_of_the_same_accounts_until_one_is_free() -> None:
    rng = np.random.default_rng(8)
    value, cost = rng.random((4, 200)).cumsum(axis=0), rng.random((4, 200)).cumsum(axis=0)
    half = np.arange(200) < 100
    least = cost[0, half].sum()
    rows = [("all", 240.0, None), ("wide", least + 80.0, half), ("narrow", least * (1 + 1e-6), half)]
    problem = Problem(value, [Resource.total(name, cost, limit, members) for name, limit, members in rows])
    exact = solve_highs_lp(problem)
    # From here both limits of the half have a price; that of the wide one falls to 0.
    found = solve(problem, near=np.array([0.5, 0.8, 0.8]))
    assert found.status == "optimal"
    assert found.primal == pytest.approx(exact.primal, rel=1e-9)
    np.testing.assert_allclose(found.prices, exact.prices, rtol=1e-6, atol=1e-9)
    assert found.prices[1] == 0 < found.prices[2]


def test_a_contradiction_among_accounts_of_one_level_ends() -> None:
    rng = np.random.default_rng(1)
    value, cost = rng.random((3, 6000)).cumsum(axis=0), 1.0 + rng.random((3, 6000)).cumsum(axis=0)
    allowed = np.ones(value.shape, dtype=bool)
    allowed[1:, :2000] = False
    limits = [Resource.total("all", cost, 9000.0), Resource.total("few", cost, 100.0, np.arange(6000) >= 3000)]
    assert solve(Problem(value, limits, allowed)).status == "infeasible"


def test_rows_that_do_not_bind_and_rows_of_nobody_cost_nothing() -> None:
    value = population("random")
    rows = [
        Resource.total("plenty", on_response(LEVELS), 1e9),
        Resource.total("nobody", on_response(LEVELS), 0.0, np.zeros(ACCOUNTS, dtype=bool)),
    ]
    for resources in (rows, []):
        solved = solve(Problem(value, resources))
        np.testing.assert_array_equal(solved.prices, np.zeros(len(resources)))
        assert solved.primal == pytest.approx(float(value.max(axis=0).astype(float).sum()), rel=1e-12)


@pytest.mark.parametrize("accounts", [60, 5000])
@pytest.mark.parametrize(
    ("where", "bad"),
    [
        (where, bad)
        for where in ("value", "a.cost", "b.cost")
        for bad in (np.nan, np.inf, -1.0)
        # A value may be negative.
        if (where, bad) != ("value", -1.0)
    ],
)
def test_a_number_that_no_solver_may_use_is_refused_with_the_name_of_its_argument(
    where: str, bad: float, accounts: int
) -> None:
    random = np.random.default_rng(0)
    value, cost, response = random.random((3, 3, accounts))
    {"value": value, "a.cost": response, "b.cost": cost}[where][1, 7] = bad
    resources = [
        Resource.total("a", on_response([0, 10, 20], response), 5.0 * accounts),
        Resource.total("b", cost, 0.3 * accounts, np.arange(accounts // 2)),
    ]
    with pytest.raises(InvalidProblem) as caught:
        solve(Problem(value, resources))
    assert caught.value.field == where
    assert caught.value.rows == (7,)


def test_prices_of_another_number_or_a_wrong_sense_are_refused_by_name() -> None:
    value = np.ones((2, 3))
    with pytest.raises(InvalidProblem, match=r"money\.sense"):
        Resource.total("money", [1, 2], 3.0, sense="about")  # type: ignore[arg-type]
    rows = [Resource.total(name, [0, 2], 3.0) for name in ("a", "b")]
    with pytest.raises(InvalidProblem, match="near"):
        solve(Problem(value, rows), near=[1.0])


def test_without_the_compiled_kernel_the_optimum_is_the_same() -> None:
    code = (
        "import sys; sys.path.insert(0, 'tests/allocation/several_budgets');"
        "from test_laws import *; from shadowprice.allocation.kernel import IS_COMPILED; assert not IS_COMPILED;"
        "v = population('random'); print(repr(solve(Problem(v, limits('groups', v))).primal))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "SHADOWPRICE_KERNEL": "numpy"},
        cwd=Path(__file__).resolve().parents[3],
    )
    value = population("random")
    here = solve(Problem(value, limits("groups", value)))
    assert float(done.stdout) == pytest.approx(here.primal, rel=1e-12)


@pytest.mark.parametrize("rows", [12, 24])
def test_more_groups_than_a_byte_holds(rows: int) -> None:
    random = np.random.default_rng(rows)
    value = population("random")[:, :4000]
    resources = []
    for k in range(rows):
        members = random.random(value.shape[1]) < 0.2
        resources.append(
            Resource.total(f"g{k}", on_response(LEVELS), float(random.uniform(10, 18)) * members.sum(), members)
        )
    problem = Problem(value, resources)
    solved = solve(problem)
    assert_proven(problem, solved)
    assert np.count_nonzero(solved.prices) > 8
    assert solved.rounded_violation <= 0
    assert solved.rounded_gap <= 1e-3
