"""Certificate of one budget against HiGHS, on instances built to be awkward, and the laws of its dual."""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np
import pytest

from shadowprice.allocation import Problem, Resource, on_response, solve

FORMS = ("total", "per_account", "per_response")
INSTANCES = 200


@dataclass(frozen=True)
class Instance:
    """A problem written out twice: as the solver takes it, and as plain matrices."""

    problem: Problem
    value: np.ndarray
    paid: np.ndarray
    measure: np.ndarray
    limit: float
    capacity: float
    allowed: np.ndarray

    @property
    def net(self) -> np.ndarray:
        return self.paid - self.limit * self.measure


def draw(seed: int) -> Instance:
    """An instance of any form and cost basis, with what makes solvers stumble."""
    rng = np.random.default_rng(seed)
    levels = np.sort(rng.choice(200, size=rng.integers(1, 8), replace=False)).astype(np.int64)
    depth, accounts = levels.size, int(rng.integers(1, 41))
    response = np.sort(rng.random((depth, accounts)), axis=0) * rng.random(accounts)
    if rng.random() < 0.3:
        response = rng.random((depth, accounts))  # not monotone
    if rng.random() < 0.3:
        response = np.round(response * 4) / 4  # many ties
    if rng.random() < 0.3:
        response[:, rng.random(accounts) < 0.4] = 0.0
    if rng.random() < 0.4:
        response = response[:, rng.integers(0, max(1, accounts // 3), size=accounts)]  # duplicates
    response = response.astype(np.float32)
    value = (response * rng.choice([1.0, 0.5, 40.0])).astype(np.float32)
    on_grant = rng.random(accounts) < rng.choice([0.0, 0.5, 1.0])
    exact = response.astype(np.float64)
    paid = np.where(on_grant, levels[:, None].astype(float), levels[:, None] * exact)
    allowed = np.ones(value.shape, dtype=bool)
    if rng.random() < 0.4:
        allowed = rng.random(value.shape) < 0.7
        allowed[rng.integers(0, depth, size=accounts), np.arange(accounts)] = True
    members = np.ones(accounts, dtype=bool)
    if rng.random() < 0.3:
        members = rng.random(accounts) < 0.6
    form = FORMS[seed % 3]
    measure = np.zeros(value.shape)
    if form == "per_account":
        measure = np.ones(value.shape)
    elif form == "per_response":
        measure = np.where(on_grant, 1.0, exact)
    paid, measure = paid * members, measure * members
    dearest = np.where(allowed, paid, -np.inf).max(axis=0).sum()
    carry = float(rng.choice([0.0, 0.0, rng.normal() * 20]))
    if form == "total":
        limit = float(dearest * rng.uniform(-0.0, 1.1))
        capacity = limit + carry
    else:
        limit, capacity = float(rng.uniform(0, 1.1) * levels[-1]), carry

    given = members if not members.all() else None
    if given is not None and rng.random() < 0.5:
        given = np.flatnonzero(members)
    cost: object = paid
    if on_grant.all() and rng.random() < 0.5:
        cost = levels
    elif not on_grant.any() and rng.random() < 0.5:
        cost = on_response(levels, response)
    if form == "total":
        resource = Resource.total("money", cost, limit, given, carry=carry)
    elif form == "per_account":
        resource = Resource.per_account("money", cost, limit, given, carry=carry)
    else:
        resource = Resource.per_response("money", cost, limit, np.where(on_grant, 1.0, exact), given, carry=carry)
    problem = Problem(value, [resource], None if allowed.all() else allowed)
    return Instance(problem, value.astype(np.float64), paid, measure, limit, capacity, allowed)


def highs(instance: Instance) -> float | None:
    """Optimal value of the linear program, or None when it has no feasible point."""
    depth, accounts = instance.value.shape
    model = highspy.Highs()
    model.silent()
    model.setOptionValue("primal_feasibility_tolerance", 1e-10)
    model.setOptionValue("dual_feasibility_tolerance", 1e-10)
    infinity = highspy.kHighsInf
    allowed = instance.allowed.astype(float)
    for upper in allowed.ravel():
        model.addVar(0.0, float(upper))
    for column, worth in enumerate(instance.value.ravel()):
        model.changeColCost(column, float(worth))
    for account in range(accounts):
        columns = np.arange(depth, dtype=np.int32) * accounts + account
        model.addRow(1.0, 1.0, depth, columns, np.ones(depth))
    # The money row is scaled to unit size, so that the tolerance means the same on every instance.
    scale = max(1.0, float(np.abs(instance.net).max()))
    net = instance.net.ravel() / scale
    model.addRow(-infinity, instance.capacity / scale, net.size, np.arange(net.size, dtype=np.int32), net)
    model.changeObjectiveSense(highspy.ObjSense.kMaximize)
    model.run()
    status = model.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        return None
    assert status == highspy.HighsModelStatus.kOptimal, status
    return float(model.getObjectiveValue())


def at(matrix: np.ndarray, level: np.ndarray) -> np.ndarray:
    return np.take_along_axis(matrix, level[None].astype(int), axis=0)[0]


@pytest.mark.parametrize("block", range(10))
def test_objective_certificate_and_rounding_agree_with_highs(block: int) -> None:
    per_block = INSTANCES // 10
    for seed in range(block * per_block, (block + 1) * per_block):
        instance = draw(seed)
        reference = highs(instance)
        solved = solve(instance.problem)
        if reference is None:
            assert solved.status == "infeasible", seed
            assert np.isnan(solved.prices).all(), seed
            # What comes back instead are the cheapest allowed levels, which do exceed the budget.
            cheapest = np.where(instance.allowed, instance.net, np.inf).min(axis=0)
            np.testing.assert_array_equal(at(instance.net, solved.level), cheapest, err_msg=str(seed))
            assert cheapest.sum() > instance.capacity, seed
            continue
        assert solved.status == "optimal", seed
        scale = max(abs(reference), 1e-6)
        assert abs(solved.primal - reference) <= 1e-9 * scale, (seed, solved.primal, reference)
        assert abs(solved.dual - reference) <= 1e-9 * scale, (seed, solved.dual, reference)
        assert solved.violation <= 1e-12, (seed, solved.violation)
        assert np.isfinite(solved.prices).all(), seed
        assert solved.prices[0] >= 0, seed
        assert 0 <= solved.tie_share <= 1, seed

        assert at(instance.allowed, solved.level).all(), seed
        net = at(instance.net, solved.level).sum()
        slack = 1e-12 * (abs(instance.capacity) + np.abs(at(instance.net, solved.level)).sum())
        assert net <= instance.capacity + slack, (seed, net, instance.capacity)
        rounded = at(instance.value, solved.level).sum()
        assert rounded == pytest.approx(solved.rounded, rel=1e-12), seed
        assert rounded <= solved.primal + 1e-9 * scale, seed
        assert solved.primal <= solved.dual + 1e-9 * scale, seed


def test_the_instances_cover_every_form_infeasible_and_slack_and_binding() -> None:
    kinds: dict[str, set[str]] = {form: set() for form in FORMS}
    for seed in range(INSTANCES):
        solved = solve(draw(seed).problem)
        kind = solved.status if solved.status == "infeasible" else "binding" if solved.prices[0] > 0 else "slack"
        kinds[FORMS[seed % 3]].add(kind)
    assert all(seen == {"infeasible", "binding", "slack"} for seen in kinds.values()), kinds


def test_the_dual_bounds_the_optimum_at_every_price_and_is_lowest_at_the_solution() -> None:
    for seed in range(60):
        instance = draw(seed)
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
    solved = solve(draw(1751).problem)
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
