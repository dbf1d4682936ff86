"""Several limits against HiGHS, on instances built to be awkward."""

from dataclasses import dataclass

import highspy
import numpy as np
import pytest

from shadowprice.allocation import Allocation, Problem, Resource
from shadowprice.allocation.solvers.partition import solve_partition

INSTANCES = 300
BLOCKS = 10


@dataclass(frozen=True)
class Limit:
    """A limit written out: what each level takes, net of what it earns, and what that has to be."""

    net: np.ndarray
    capacity: float
    sense: str


@dataclass(frozen=True)
class Instance:
    problem: Problem
    limits: list[Limit]

    @property
    def allowed(self) -> np.ndarray:
        allowed = self.problem.allowed
        return np.ones(self.problem.shape, dtype=bool) if allowed is None else allowed


def draw(seed: int) -> Instance:
    """Overlapping groups of one money or of several, ties, duplicates, masks, floors, equalities, odd scales."""
    rng = np.random.default_rng(seed)
    depth, accounts, rows = int(rng.integers(1, 8)), int(rng.integers(1, 41)), int(rng.integers(1, 9))
    value, money = rng.random((depth, accounts)), rng.random((depth, accounts)) * 100
    if rng.random() < 0.3:
        value = np.round(value * 4) / 4
    if rng.random() < 0.3:
        money = np.round(money / 10) * 10
    if rng.random() < 0.5:
        money[0] = 0.0
    if rng.random() < 0.3:
        alike = rng.integers(0, max(1, accounts // 3), accounts)
        value, money = value[:, alike], money[:, alike]
    if rng.random() < 0.2:
        value = (value - 0.5).astype(np.float32)
    value_unit, money_unit = rng.choice([1.0, 1e-12, 1e12], p=[0.8, 0.1, 0.1], size=2)
    if rng.random() < 0.05:
        value_unit = 1e-310 if value.dtype == np.float64 else 1e-40  # denormal
    value = (value * value_unit).astype(value.dtype)
    many_costs = rng.random() < 0.4
    allowed = np.ones(value.shape, dtype=bool)
    if rng.random() < 0.3:
        allowed = rng.random(value.shape) < 0.7
        allowed[rng.integers(0, depth, accounts), np.arange(accounts)] = True
    resources, limits = [], []
    for k in range(rows):
        members = np.ones(accounts, dtype=bool) if rng.random() < 0.2 else rng.random(accounts) < rng.uniform(0.2, 1)
        cost = (np.round(rng.random(value.shape) * 10) if many_costs else money) * money_unit
        sense = str(rng.choice(["at_most", "at_least", "exactly"], p=[0.8, 0.12, 0.08]))
        least = float((np.where(allowed, cost, np.inf).min(axis=0) * members).sum())
        most = float((np.where(allowed, cost, -np.inf).max(axis=0) * members).sum())
        share = rng.uniform(0, 0.5) if sense == "at_least" else rng.uniform(-0.02, 0.8)
        limit = max(least + (most - least) * share, 0.0)
        form = rng.choice(["total", "per_account", "per_response"], p=[0.6, 0.2, 0.2])
        if form == "total":
            resources.append(Resource.total(f"row {k}", cost, limit, members, sense=sense))
            limits.append(Limit(cost * members, limit, sense))
        elif form == "per_account":
            mean = limit / max(int(members.sum()), 1)
            resources.append(Resource.per_account(f"row {k}", cost, mean, np.flatnonzero(members), sense=sense))
            limits.append(Limit(cost * members, mean * int(members.sum()), sense))
        else:
            response = rng.random(value.shape) if many_costs else np.ones(value.shape)
            mean = limit / max(float(members.sum()), 1.0)
            resources.append(Resource.per_response(f"row {k}", cost, mean, response, members, sense=sense))
            limits.append(Limit((cost - mean * response) * members, 0.0, sense))
    return Instance(Problem(value, resources, None if allowed.all() else allowed), limits)


def highs(instance: Instance, *, whole: bool = False) -> float | None:
    """Optimal value, of whole levels or of fractions, or None where nothing is feasible."""
    value = instance.problem.value.astype(np.float64)
    depth, accounts = value.shape
    model = highspy.Highs()
    model.silent()
    model.setOptionValue("primal_feasibility_tolerance", 1e-10)
    model.setOptionValue("dual_feasibility_tolerance", 1e-10)
    model.setOptionValue("mip_rel_gap", 0.0)
    infinity = highspy.kHighsInf
    unit = float(np.abs(value).max()) or 1.0
    for upper, worth in zip(instance.allowed.ravel(), (value / unit).ravel(), strict=True):
        model.addVar(0.0, float(upper))
        column = model.getNumCol() - 1
        model.changeColCost(column, float(worth))
        if whole:
            model.changeColIntegrality(column, highspy.HighsVarType.kInteger)
    for account in range(accounts):
        model.addRow(1.0, 1.0, depth, np.arange(depth, dtype=np.int32) * accounts + account, np.ones(depth))
    for limit in instance.limits:
        scale = float(np.abs(limit.net).max()) or 1.0
        low = -infinity if limit.sense == "at_most" else limit.capacity / scale
        high = infinity if limit.sense == "at_least" else limit.capacity / scale
        net = limit.net.ravel() / scale
        model.addRow(low, high, net.size, np.arange(net.size, dtype=np.int32), net)
    model.changeObjectiveSense(highspy.ObjSense.kMaximize)
    model.run()
    status = model.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        return None
    assert status == highspy.HighsModelStatus.kOptimal, status
    return float(model.getObjectiveValue()) * unit


def at(matrix: np.ndarray, level: np.ndarray) -> np.ndarray:
    return np.take_along_axis(matrix, level[None].astype(int), axis=0)[0]


def excess(instance: Instance, level: np.ndarray) -> float:
    """How much a choice of levels breaks the worst limit, in its largest cost."""
    worst = 0.0
    for limit in instance.limits:
        over = at(limit.net, level).sum() - limit.capacity
        wrong = {"at_most": over, "at_least": -over, "exactly": abs(over)}[limit.sense]
        worst = max(worst, wrong / max(float(np.abs(limit.net).max()), 1e-300))
    return worst


def assert_certified(instance: Instance, solved: Allocation, reference: float, seed: int) -> None:
    value = instance.problem.value.astype(np.float64)
    scale = max(abs(reference), 1e-6 * float(np.abs(value).max()))
    assert abs(solved.primal - reference) <= 1e-9 * scale, (seed, solved.primal, reference)
    assert abs(solved.dual - reference) <= 1e-9 * scale, (seed, solved.dual, reference)
    assert solved.violation <= 0, (seed, solved.violation)
    # The prices prove the bound by themselves, with the sign of each row's sense.
    score = value.copy()
    bound = 0.0
    for price, limit in zip(solved.prices, instance.limits, strict=True):
        assert price >= 0 if limit.sense == "at_most" else price <= 0 if limit.sense == "at_least" else True, seed
        score -= price * limit.net
        bound += price * limit.capacity
    bound += np.where(instance.allowed, score, -np.inf).max(axis=0).sum()
    assert abs(bound - reference) <= 1e-9 * scale, (seed, bound, reference)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_optimum_prices_and_status_are_those_of_highs(block: int) -> None:
    for seed in range(block * INSTANCES // BLOCKS, (block + 1) * INSTANCES // BLOCKS):
        instance = draw(seed)
        reference = highs(instance)
        solved = solve_partition(instance.problem)
        assert instance.allowed[solved.level, np.arange(solved.level.size)].all(), seed
        if reference is None:
            assert solved.status == "infeasible", seed
            assert np.isnan(solved.prices).all(), seed
            assert set(solved.conflict) <= {resource.name for resource in instance.problem.resources}, seed
            assert solved.conflict, seed
            continue
        assert solved.status == "optimal", seed
        assert_certified(instance, solved, reference, seed)
        assert (solved.rounded_violation <= 0) == (excess(instance, solved.level) <= 1e-9), seed
        rounded = at(instance.problem.value.astype(np.float64), solved.level).sum()
        assert rounded == pytest.approx(solved.rounded, rel=1e-9, abs=0), seed


def test_of_a_few_accounts_the_whole_answer_is_the_best_there_is() -> None:
    seen = 0
    for seed in range(500):
        instance = draw(seed)
        if instance.problem.shape[1] > 10:
            continue
        best = highs(instance, whole=True)
        solved = solve_partition(instance.problem)
        if best is None:
            # Whole levels need not meet limits that fractions meet.
            assert solved.status == "infeasible" or solved.rounded_violation > 0, seed
            continue
        seen += 1
        assert solved.rounded_violation <= 0, seed
        assert solved.rounded == pytest.approx(best, rel=1e-9, abs=0), seed
    assert seen > 40
