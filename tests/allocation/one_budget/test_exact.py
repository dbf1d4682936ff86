"""One budget against HiGHS: 520 random and adversarial instances, through the exact finish and through the pass."""

from __future__ import annotations

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
    paid = (
        np.repeat(levels[:, None].astype(float), accounts, axis=1) if on_grant else levels[:, None] * exact
    ) * members
    form = FORMS[seed % 3]
    measure = {"total": np.zeros_like(exact), "per_account": np.ones_like(exact), "per_response": exact}[form] * members
    if kind == "all infeasible" and form != "total":
        levels = levels + 5
        paid = (
            np.repeat(levels[:, None].astype(float), accounts, axis=1) if on_grant else levels[:, None] * exact
        ) * members
    least = np.where(allowed, paid, np.inf).min(axis=0).sum()
    most = np.where(allowed, paid, -np.inf).max(axis=0).sum()
    share = {"tiny budget": 1e-9, "huge budget": 1e15}.get(kind, rng.uniform(0, 1.1))
    limit = least + share * (most - least) if form == "total" else share * levels.max()
    if kind == "all infeasible":
        limit = least * 0.5 if form == "total" else 1e-3
    if kind == "tiny budget" and form != "total":
        limit = levels[0] * (1 + 1e-9)
    cost = levels if on_grant else on_response(levels, response)
    given = None if members.all() else members
    if form == "total":
        resource = Resource.total("money", cost, limit, given)
    elif form == "per_account":
        resource = Resource.per_account("money", cost, limit, given)
    else:
        resource = Resource.per_response("money", cost, limit, response, given)
    problem = Problem(value, [resource], None if allowed.all() else allowed)
    capacity = limit if form == "total" else 0.0
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
            cheapest = np.where(instance.allowed, instance.net, np.inf).min(axis=0)
            assert cheapest.sum() > instance.capacity, seed
            continue
        primal, dual = reference
        assert solved.status == "optimal", seed
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
