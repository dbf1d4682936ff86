"""One price for several campaigns against HiGHS on the joint linear program."""

import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from shadowprice.allocation import Problem, Resource, solve
from shadowprice.allocation.portfolio.curve import ValueCurve
from shadowprice.allocation.portfolio.solve import solve_portfolio
from shadowprice.allocation.portfolio.split import split
from shadowprice.errors import InvalidInput

Made = tuple[np.ndarray, np.ndarray]


def made(rng: np.random.Generator, accounts: int, scale: float) -> Made:
    """Values and costs (J, N) of a campaign whose accounts respond more to more."""
    levels = np.array([0.0, 20.0, 50.0, 90.0])
    chance = np.cumsum(rng.random((4, accounts)) * [[0.3], [0.5], [0.3], [0.2]], axis=0) / 1.3
    return scale * chance, levels[:, None] * chance


def asking(value: np.ndarray, cost: np.ndarray):
    """Solve a campaign at a budget, by the project's own solver."""

    def ask(budget: int) -> tuple[float, float]:
        found = solve(Problem(value, [Resource.total("budget", cost, float(budget))]))
        return found.primal, float(found.prices[0])

    return ask


def joint(campaigns: dict[str, Made], total: int, floors: dict[str, int], caps: dict[str, int]) -> float:
    """Optimum of all campaigns together, with a share of each level for each account and a budget for each campaign."""
    names, blocks = sorted(campaigns), []
    sizes = [campaigns[name][0].size for name in names]
    columns = sum(sizes) + len(names)
    objective = np.concatenate([*(-campaigns[name][0].ravel() for name in names), np.zeros(len(names))])
    above, equal = np.zeros((len(names) + 1, columns)), []
    first = 0
    for place, name in enumerate(names):
        value, cost = campaigns[name]
        above[place, first : first + value.size] = cost.ravel()
        above[place, sum(sizes) + place] = -1.0
        for account in range(value.shape[1]):
            row = np.zeros(columns)
            row[first + account : first + value.size : value.shape[1]] = 1.0
            equal.append(row)
        blocks.append(first)
        first += value.size
    above[-1, sum(sizes) :] = 1.0
    bounds = [(0, None)] * sum(sizes) + [(floors.get(name, 0), caps.get(name, total)) for name in names]
    limits = [*np.zeros(len(names)), float(total)]
    found = linprog(objective, above, limits, np.array(equal), np.ones(len(equal)), bounds, method="highs")
    return -float(found.fun)


def started(ask, most: int) -> ValueCurve:
    points = [(budget, *ask(budget)) for budget in (0, most)]
    return ValueCurve.of(*zip(*points, strict=True))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 5), st.floats(0.05, 0.9), st.booleans())
def test_the_division_is_that_of_the_joint_program(seed: int, campaigns: int, share: float, limited: bool) -> None:
    rng = np.random.default_rng(seed)
    given = {f"c{place}": made(rng, int(rng.integers(3, 9)), float(rng.uniform(20, 400))) for place in range(campaigns)}
    # Costs in thousandths, so that whole budgets lose little.
    given = {name: (value, 1000 * cost) for name, (value, cost) in given.items()}
    most = {name: int(cost[-1].sum()) + 1 for name, (_, cost) in given.items()}
    total = int(share * sum(most.values()))
    floors = {"c0": min(most["c0"], total) // 3} if limited else {}
    caps = {"c1": max(total // 5, floors.get("c1", 0))} if limited else {}
    asks = {name: asking(*matrices) for name, matrices in given.items()}
    found = solve_portfolio(asks, {name: started(asks[name], most[name]) for name in given}, total, floors, caps)
    wanted = joint(given, total, floors, caps)
    lost = campaigns * max(float(asks[name](budget)[1]) for name, budget in found.budget.items())
    assert wanted - lost - 1e-6 <= found.value <= wanted * (1 + 1e-9), "less than a minor unit of each is lost"
    assert found.value * (1 + found.gap) >= wanted * (1 - 1e-9), "the gap is a bound"
    assert sum(found.budget.values()) <= total
    assert all(found.budget[name] >= floor for name, floor in floors.items())
    assert all(found.budget[name] <= cap for name, cap in caps.items())


def test_ten_thousand_curves_have_their_price_in_a_second_and_it_is_the_one_that_spends_the_total() -> None:
    rng = np.random.default_rng(0)
    curves, sizes = [], rng.lognormal(10, 1, 10_000)
    for size in sizes:
        budget = np.linspace(0, size, 16)
        price = np.sort(rng.random(16))[::-1]
        value = np.concatenate([[0.0], np.cumsum(np.diff(budget) * (price[1:] + price[:-1]) / 2)])
        curves.append(ValueCurve.of(budget, value, price))
    total = 0.4 * sizes.sum()
    started_at = time.process_time()
    found = split(curves, total, np.zeros(sizes.size), sizes)
    assert time.process_time() - started_at < 5  # a second on quiet cores
    assert found.budget.sum() == pytest.approx(total)
    # At an optimum of concave bounds no slope to the left of a budget is below one to the right of another.
    left, right = [], []
    for curve, budget, size in zip(curves, found.budget.tolist(), sizes.tolist(), strict=True):
        slope, begin, end = curve.pieces(0.0, size)
        wide = end > begin
        left += slope[wide & (begin < budget - 1e-6)].tolist()
        right += slope[wide & (end > budget + 1e-6)].tolist()
    assert min(left) >= max(right) - 1e-12
    assert min(left) <= found.price <= max(left)


def test_the_upper_bound_is_one() -> None:
    rng = np.random.default_rng(1)
    value, cost = made(rng, 12, 100.0)
    ask = asking(value, cost)
    curve = started(ask, int(cost[-1].sum()) + 1)
    for budget in range(0, int(cost[-1].sum()), 40):
        assert curve.bound(budget) >= ask(budget)[0] - 1e-9
        curve = curve.with_point(budget, *ask(budget))
        assert curve.bound(budget) == pytest.approx(ask(budget)[0])
    slope, begin, end = curve.pieces(0.0, 100.0)
    assert all(one >= other for one, other in pairwise(slope))
    assert (begin[0], end[-1]) == (0.0, 100.0)


def test_what_cannot_be_divided_is_refused_by_name() -> None:
    rng = np.random.default_rng(2)
    ask = asking(*made(rng, 4, 10.0))
    curves = {"a": started(ask, 100)}
    for floors, caps, field in (({"b": 1}, {}, "floors"), ({}, {"b": 1}, "caps"), ({"a": 9}, {"a": 8}, "floors")):
        with pytest.raises(InvalidInput) as error:
            solve_portfolio({"a": ask}, curves, 50, floors, caps)
        assert error.value.field == field
    with pytest.raises(InvalidInput, match="above the total"):
        solve_portfolio({"a": ask}, curves, 50, {"a": 51}, {})
