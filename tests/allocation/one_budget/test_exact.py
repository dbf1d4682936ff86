"""One budget against HiGHS: 598 random and adversarial instances, through the exact finish and through the pass."""

from dataclasses import dataclass

import highspy
import numpy as np
import pytest

from shadowprice.allocation import Problem, Resource, on_response, solve
from shadowprice.allocation.one_budget import search

FORMS = ("total", "per_account", "per_response")
KINDS = (
    "plain",
    "ties",
    "duplicates",
    "one level",
    "one account",
    "all infeasible",
    "huge budget",
    "tiny budget",
    "not monotone",
    "denormal",
    "1e-12",
    "1e12",
    "masked",
    "clustered",
    "sorted",
    "nothing responds",
    "parallel",
    "few count",
    "one ulp apart",
    "float64",
    "without an order",
    "some on grant",
    "carry",
)
PER_KIND = 26
BLOCKS = 10


@dataclass(frozen=True)
class Instance:
    """A problem as the solver takes it, and the same as plain matrices."""

    problem: Problem
    value: np.ndarray
    net: np.ndarray
    capacity: float
    allowed: np.ndarray


def draw(kind: str, seed: int) -> Instance:
    rng = np.random.default_rng([KINDS.index(kind), seed])
    depth, accounts = int(rng.integers(1, 9)), int(rng.integers(1, 61))
    depth = 1 if kind == "one level" else depth
    accounts = 1 if kind == "one account" else accounts
    levels = np.sort(rng.choice(np.arange(1, 300), size=depth, replace=False))
    response = np.sort(rng.random((depth, accounts)), axis=0) * rng.random(accounts)
    dtype: type = np.float32
    if kind == "ties":
        response = np.round(response * 4) / 4
    elif kind == "duplicates":
        response = response[:, rng.integers(0, max(1, accounts // 5), accounts)]
    elif kind == "without an order":  # alternatives: several are free, and several cost the same
        levels = rng.choice([0, 0, 1, 1, 65, 200], size=depth)
        response = rng.random((depth, accounts))
    elif kind == "not monotone":
        response = rng.random((depth, accounts))
    elif kind == "clustered":
        response = np.repeat(response[:, : accounts // 8 + 1], 8, axis=1)[:, :accounts]
    elif kind == "sorted":
        response = response[:, np.argsort(response[-1])]
    elif kind == "nothing responds":
        response[:, rng.random(accounts) < 0.7] = 0.0
    elif kind == "parallel":  # levels on one line: every edge of an account has the same slope
        response = levels[:, None] / 300 * rng.choice([0.25, 0.5, 1.0], accounts)
    elif kind == "one ulp apart":
        response = np.float32(0.5) + rng.integers(0, 4, (depth, accounts)) * np.finfo(np.float32).eps / 2
    elif kind == "float64":
        dtype = np.float64
    response = response.astype(dtype)
    worth = {"1e-12": 1e-12, "1e12": 1e12, "denormal": 1e-42}.get(kind, 1.0)
    value = (response * worth).astype(dtype)
    accounts = value.shape[1]
    allowed = np.ones(value.shape, dtype=bool)
    if kind == "masked":
        allowed = rng.random(value.shape) < 0.5
        allowed[rng.integers(0, depth, accounts), np.arange(accounts)] = True
    members = rng.random(accounts) < 0.5 if kind == "few count" else np.ones(accounts, dtype=bool)
    exact = response.astype(np.float64)
    on_grant = rng.random() < 0.5
    form = FORMS[seed % 3]
    if kind == "all infeasible" and form != "total":
        levels = levels + 5
    granted = rng.random(accounts) < 0.5 if kind == "some on grant" else np.full(accounts, on_grant)
    paid = np.where(granted, levels[:, None].astype(float), levels[:, None] * exact) * members
    answered = np.where(granted, 1.0, exact) if kind == "some on grant" else exact
    measure = {"total": 0.0, "per_account": 1.0, "per_response": answered}[form] * members * np.ones_like(exact)
    least = np.where(allowed, paid, np.inf).min(axis=0).sum()
    most = np.where(allowed, paid, -np.inf).max(axis=0).sum()
    share = {"tiny budget": 1e-9, "huge budget": 1e15}.get(kind, rng.uniform(0, 1.1))
    limit = least + share * (most - least) if form == "total" else share * levels.max()
    if kind == "all infeasible":
        limit = least * 0.5 if form == "total" else 1e-3
    if kind == "tiny budget" and form != "total":
        limit = levels[0] * (1 + 1e-9)
    cost: object = levels if on_grant else on_response(levels, response)
    if kind == "some on grant":
        cost = paid
    given = None if members.all() else np.flatnonzero(members) if seed % 2 else members
    carry = float(rng.normal() * 20) if kind == "carry" else 0.0
    if form == "total":
        resource = Resource.total("money", cost, limit, given, carry=carry)
    elif form == "per_account":
        resource = Resource.per_account("money", cost, limit, given, carry=carry)
    else:
        resource = Resource.per_response("money", cost, limit, answered.astype(dtype), given, carry=carry)
    problem = Problem(value, [resource], None if allowed.all() else allowed)
    capacity = (limit if form == "total" else 0.0) + carry
    return Instance(
        problem, value.astype(np.float64), paid - (0.0 if form == "total" else limit) * measure, capacity, allowed
    )


def highs(instance: Instance) -> tuple[float, float] | None:
    """Optimum of the linear program and the dual at HiGHS's price, or None when it has no feasible point."""
    depth, accounts = instance.value.shape
    worth = float(np.abs(instance.value).max()) or 1.0
    money = float(np.abs(instance.net).max()) or 1.0
    model = highspy.Highs()
    model.silent()
    for tolerance in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
        model.setOptionValue(tolerance, 1e-10)
    model.setOptionValue("small_matrix_value", 1e-12)
    size = depth * accounts
    model.addVars(size, np.zeros(size), instance.allowed.ravel().astype(float))
    model.changeColsCost(size, np.arange(size, dtype=np.int32), instance.value.ravel() / worth)
    for account in range(accounts):
        model.addRow(1.0, 1.0, depth, np.arange(depth, dtype=np.int32) * accounts + account, np.ones(depth))
    net, capacity = instance.net.ravel() / money, min(instance.capacity / money, 1e9)
    model.addRow(-highspy.kHighsInf, capacity, size, np.arange(size, dtype=np.int32), net)
    model.changeObjectiveSense(highspy.ObjSense.kMaximize)
    model.run()
    if model.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
        return None
    assert model.getModelStatus() == highspy.HighsModelStatus.kOptimal
    solution = model.getSolution()
    price = max(0.0, solution.row_dual[accounts]) * worth / money
    score = np.where(instance.allowed, instance.value - price * instance.net, -np.inf)
    # At a slack budget 0 · huge stays 0.
    dual = price * instance.capacity + score.max(axis=0).sum()
    return float(np.dot(solution.col_value, instance.value.ravel())), float(dual)


def at(matrix: np.ndarray, level: np.ndarray) -> np.ndarray:
    return np.take_along_axis(matrix, level[None].astype(int), axis=0)[0]


@pytest.mark.parametrize("exact", [search.EXACT, 16], ids=["finish", "pass"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_instance_agrees_with_highs(kind: str, exact: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Small populations go straight to the exact finish; a small threshold sends them through sample and pass as well.
    monkeypatch.setattr(search, "EXACT", exact)
    for seed in range(PER_KIND):
        instance = draw(kind, seed)
        reference = highs(instance)
        solved = solve(instance.problem)
        if reference is None:
            assert solved.status == "infeasible", seed
            assert np.isnan(solved.prices).all(), seed
            # The cheapest allowed levels come back instead, which do exceed the budget.
            cheapest = np.where(instance.allowed, instance.net, np.inf).min(axis=0)
            np.testing.assert_array_equal(at(instance.net, solved.level), cheapest, err_msg=str(seed))
            assert cheapest.sum() > instance.capacity, seed
            continue
        primal, dual = reference
        assert solved.status == "optimal", seed
        assert np.isfinite(solved.prices).all(), seed
        assert solved.prices[0] >= 0, seed
        assert 0 <= solved.tie_share <= 1, seed
        scale = float(np.abs(instance.value).max()) * 1e-3 + abs(primal)
        assert abs(solved.primal - primal) <= 1e-9 * scale, (seed, solved.primal, primal)
        # Two certificates that bound each other: HiGHS's dual is no lower than ours, ours no lower than its primal.
        assert solved.dual <= dual + 1e-9 * scale, (seed, solved.dual, dual)
        assert solved.dual >= primal - 1e-9 * scale, (seed, solved.dual, primal)
        assert abs(solved.gap) <= 1e-9 or abs(solved.dual - solved.primal) <= 1e-9 * scale, (seed, solved.gap)
        assert solved.violation <= 1e-12, (seed, solved.violation)
        assert at(instance.allowed, solved.level).all(), seed
        used = at(instance.net, solved.level)
        assert used.sum() <= instance.capacity + 1e-12 * (abs(instance.capacity) + np.abs(used).sum()), seed
        assert at(instance.value, solved.level).sum() == pytest.approx(solved.rounded, rel=1e-12), seed
        # One account at most is split where no two are alike: rounding loses at most one account's range.
        if solved.tied <= 1:
            assert solved.primal - solved.rounded <= np.ptp(instance.value, axis=0).max() + 1e-9 * scale, seed


def test_there_are_enough_instances_of_every_outcome() -> None:
    assert len(KINDS) * PER_KIND >= 500
    seen: dict[str, set[str]] = {form: set() for form in FORMS}
    for kind in KINDS:
        for seed in range(PER_KIND):
            solved = solve(draw(kind, seed).problem)
            outcome = solved.status if solved.status == "infeasible" else "binding" if solved.prices[0] > 0 else "slack"
            seen[FORMS[seed % 3]].add(outcome)
    assert all(outcomes == {"infeasible", "binding", "slack"} for outcomes in seen.values()), seen


def test_the_dual_bounds_the_optimum_at_every_price_and_is_lowest_at_the_solution() -> None:
    for kind in ("plain", "ties", "not monotone", "some on grant", "carry"):
        for seed in range(12):
            instance = draw(kind, seed)
            solved = solve(instance.problem)
            if solved.status == "infeasible":
                continue  # its dual is unbounded

            def dual(price: float, instance: Instance = instance) -> float:
                score = np.where(instance.allowed, instance.value - price * instance.net, -np.inf)
                return float(price * instance.capacity + score.max(axis=0).sum())

            lowest = dual(float(solved.prices[0]))
            assert lowest == pytest.approx(solved.dual, rel=1e-9, abs=1e-9), seed
            for factor in (0.0, 0.5, 0.9, 0.999, 1.001, 1.1, 2.0, 10.0):
                assert dual(float(solved.prices[0]) * factor) >= lowest - 1e-9 * max(1.0, abs(lowest)), seed


def test_an_optimum_of_zero_has_no_gap() -> None:
    solved = solve(Problem(np.array([[0.0], [0.5]]), [Resource.total("money", np.array([0, 10]), 0.0)]))
    assert solved.primal == 0
    assert solved.prices[0] > 0
    assert solved.gap == 0


def test_at_most_one_account_is_fractional_where_no_two_accounts_are_alike() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        value = np.sort(rng.random((6, 300)), axis=0)
        cost = np.array([0, 10, 20, 50, 80, 120])
        solved = solve(Problem(value, [Resource.per_account("money", cost, 35.0)]))
        assert solved.tied <= 1
        # The a-priori bound of the rounding: one account gives up at most its whole range.
        assert solved.primal - solved.rounded <= np.ptp(value, axis=0).max()


def test_an_impossible_budget_is_reported_and_has_no_price() -> None:
    value = np.array([[0.1, 0.2], [0.3, 0.4]])
    solved = solve(Problem(value, [Resource.total("money", np.array([5, 9]), 9.0)]))
    assert solved.status == "infeasible"
    assert np.isnan(solved.prices).all()
    assert solved.violation == pytest.approx(10 / 9 - 1)
    assert solved.rounded_violation == pytest.approx(10 / 9 - 1)


def test_a_zero_denominator_is_never_divided_by() -> None:
    nobody = np.zeros((3, 4), dtype=np.float32)
    cost = on_response(np.array([10, 20, 30]), nobody)
    solved = solve(Problem(nobody, [Resource.per_response("money", cost, 15.0, nobody)]))
    assert (solved.status, solved.primal, solved.dual) == ("optimal", 0.0, 0.0)
    assert solved.violation <= 0
    assert solved.gap == 0


def test_a_slack_budget_costs_nothing_and_gives_everyone_the_best_level() -> None:
    value = np.array([[0.1, 0.5, 0.2], [0.4, 0.3, 0.2]])
    solved = solve(Problem(value, [Resource.total("money", np.array([1, 2]), 100.0)]))
    assert solved.prices[0] == 0
    assert solved.primal == pytest.approx(0.4 + 0.5 + 0.2)
    np.testing.assert_array_equal(solved.level, [1, 0, 0])  # what is worth the same goes to the cheaper
