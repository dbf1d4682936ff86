"""The pass over a bracket of prices: who is called settled really is, everywhere in the bracket."""

import numpy as np
import pytest

from shadowprice.allocation import kernel
from shadowprice.allocation.kernel import NetCost, Tile

LEVELS, ACCOUNTS, PLANES = 5, 400, 3


def population(seed: int) -> tuple[Tile, tuple[NetCost, ...]]:
    random = np.random.default_rng(seed)
    value = random.random((LEVELS, ACCOUNTS))
    planes = tuple(random.random((LEVELS, ACCOUNTS)) for _ in range(PLANES))
    allowed = random.random((LEVELS, ACCOUNTS)) < 0.7
    allowed[0] = True
    pattern = random.integers(0, 4, ACCOUNTS).astype(np.uint16)
    costs = tuple(
        NetCost(random.normal(size=LEVELS), tuple(random.normal(size=LEVELS) for _ in range(PLANES)), measured)
        for measured in (0, 2)
    )
    return Tile(value, planes, pattern, allowed), costs


def scores(tile: Tile, costs: tuple[NetCost, ...], prices: np.ndarray) -> np.ndarray:
    total = tile.value - sum(prices[m][tile.pattern] * cost.of(tile.planes) for m, cost in enumerate(costs))
    return np.where(tile.allowed, total, -np.inf)


@pytest.mark.parametrize("width", [0.0, 0.05, 0.4])
def test_a_settled_account_has_one_best_level_in_the_whole_box_and_an_open_one_has_not(width: float) -> None:
    for seed in range(5):
        tile, costs = population(seed)
        random = np.random.default_rng(100 + seed)
        low = random.normal(size=(2, 4)) * 0.3
        high = low + width * random.random((2, 4))
        found = kernel.settle(tile, costs, low, high)
        settled = np.ones(ACCOUNTS, dtype=bool)
        settled[found.account] = False
        assert found.level is not None
        seen = np.zeros((LEVELS, ACCOUNTS), dtype=bool)
        ends = [np.where(random.random((2, 4)) < 0.5, low, high) for _ in range(60)]
        inside = [low + random.random((2, 4)) * (high - low) for _ in range(60)]
        for prices in (*ends, *inside):
            seen[scores(tile, costs, prices).argmax(axis=0), np.arange(ACCOUNTS)] = True
        assert seen[found.level, np.arange(ACCOUNTS)][settled].all()
        assert (seen.sum(axis=0)[settled] == 1).all()
        # Of those left open nearly all do change level somewhere: the corners of a bracket of two prices are few.
        if width:
            assert (seen.sum(axis=0)[~settled] > 1).mean() > 0.8


def test_the_sums_are_those_of_the_settled_accounts() -> None:
    tile, costs = population(7)
    low = np.full((2, 4), 0.1)
    found = kernel.settle(tile, costs, low, low + 0.1)
    settled = np.setdiff1d(np.arange(ACCOUNTS), found.account)
    assert found.level is not None
    at = (found.level[settled], settled)
    matrices = [tile.value, *(cost.of(tile.planes) for cost in costs), np.zeros_like(tile.value), tile.planes[1]]
    for p in range(4):
        mine = tile.pattern[settled] == p
        expected = [matrix[at][mine].sum() for matrix in matrices]
        np.testing.assert_allclose(found.sums[p], [*expected, mine.sum()], rtol=1e-12)
