"""The sixty lines give the engine's prices and the rule's decisions, and their day ends on its budget."""

import ast
from pathlib import Path

import numpy as np
import pytest

from shadowprice import _educational as small
from shadowprice.allocation import Problem, Resource, solve
from shadowprice.decision import decide

LEVELS = np.array([0.0, 20.0, 50.0, 90.0])


def curves(seed: int, accounts: int = 200, *, kinds: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    value = np.sort(random.random((LEVELS.size, kinds or accounts)), axis=0)
    return np.repeat(value, accounts // kinds, axis=1) if kinds else value


@pytest.mark.parametrize("kinds", [0, 5])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 2.0])
def test_prices_and_tie_shares_are_those_of_the_engine(share: float, kinds: int) -> None:
    for seed in range(10):
        value = curves(seed, kinds=kinds)
        cost = LEVELS[:, None] * value
        budget = share * cost.max(axis=0).sum()
        price, tie_share = small.find_price(value, cost, budget)
        solved = solve(Problem(value, [Resource.total("b", cost, budget)]))
        assert price == pytest.approx(solved.prices[0], rel=1e-9, abs=1e-15)
        assert tie_share == pytest.approx(solved.tie_share, abs=1e-6)
        draw = np.random.default_rng(seed).random(value.shape[1])
        chosen = small.decide(value, cost, price, 0.0, draw)
        np.testing.assert_array_equal(chosen, decide(value, cost, price, 0.0, range(value.shape[1])).level)


def test_a_budget_below_the_cheapest_levels_gets_the_highest_price() -> None:
    value = curves(0)
    cost = LEVELS[:, None] * value + 1.0
    price, tie_share = small.find_price(value, cost, 0.0)
    assert tie_share == 0.0
    assert (small.best(value, cost, price)[0] == 0).all()


def test_curves_are_group_means_that_rise() -> None:
    level, group = np.array([0, 0, 1, 1, 0, 1]), np.array([0, 0, 0, 0, 1, 1])
    found = small.fit_curves(level, np.array([0.0, 1.0, 1.0, 1.0, 1.0, 0.0]), group, 2)
    np.testing.assert_allclose(found, [[0.5, 1.0], [1.0, 1.0]])


def test_a_day_ends_on_its_budget() -> None:
    budget = 30_000.0
    paid = small.pace(curves(1), LEVELS, budget, [100, 400, 300, 200] * 6, np.random.default_rng(2))
    assert paid.sum() == pytest.approx(budget, rel=0.01)


def test_the_file_is_short_and_imports_nothing_of_the_project() -> None:
    text = Path(small.__file__).read_text()
    tree = ast.parse(text)
    names = {each.module or "" for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)}
    names |= {alias.name for each in ast.walk(tree) if isinstance(each, ast.Import) for alias in each.names}
    assert names == {"numpy", "numpy.typing"}
    code = [line for line in ast.unparse(tree).splitlines() if line.strip() and '"""' not in line]
    assert len(code) <= 60
