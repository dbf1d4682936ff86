"""The few accounts that matter, in float64 and in units of their own size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.allocation.kernel import Tile
from shadowprice.allocation.kernel.arguments import Matrix
from shadowprice.allocation.several_budgets.rows import Rows

Levels = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class ActiveSet:
    """Accounts of a small problem: maximize Σ times · value subject to Σ times · cost against what the rows have left.

    value    (J, n), divided by ``worth``
    cost     (M, J, n), each kind divided by its largest entry
    loads    (M, patterns, K), with the units of kinds and rows
    pattern  (n,)
    allowed  bool (J, n)
    times    (n,), how often each account counts
    worth    unit of value
    unit     (K,), unit of each row
    sizes    (M,), unit of each kind of cost
    """

    value: Matrix
    cost: Matrix
    loads: Matrix
    pattern: Levels
    allowed: NDArray[np.bool_]
    times: NDArray[np.float64]
    worth: float
    unit: NDArray[np.float64]
    sizes: NDArray[np.float64]

    @classmethod
    def of(cls, tile: Tile, rows: Rows, times: NDArray[np.float64] | None = None) -> ActiveSet:
        """The accounts of a tile. O(M·J·n)."""
        n = tile.accounts
        value = tile.value.astype(np.float64)
        allowed = np.ones(value.shape, dtype=bool) if tile.allowed is None else tile.allowed
        cost = np.empty((len(rows.costs), *value.shape))
        for m, kind in enumerate(rows.costs):
            cost[m] = kind.of(tile.planes)
        size = power_of_two(np.abs(cost).max(axis=(1, 2), initial=0.0))
        loads = rows.loads * size[:, None, None]
        unit = power_of_two(loads.max(axis=(0, 1), initial=0.0))
        worth = float(power_of_two(np.abs(value).max(initial=0.0)))
        return cls(
            value / worth,
            cost / size[:, None, None],
            loads / unit,
            np.zeros(n, dtype=np.intp) if tile.pattern is None else tile.pattern.astype(np.intp),
            allowed,
            np.ones(n) if times is None else times,
            worth,
            unit,
            size,
        )

    @property
    def accounts(self) -> int:
        """Number of accounts n."""
        return int(self.value.shape[1])

    def charge(self, prices: NDArray[np.float64]) -> Matrix:
        """(J, n): Σ_k price_k · cost_k at prices (K,) in the active set's units."""
        charges = self.loads @ prices
        charge = charges[0][self.pattern] * self.cost[0]
        for m in range(1, self.cost.shape[0]):
            charge += charges[m][self.pattern] * self.cost[m]
        return np.asarray(charge)

    def score(self, prices: NDArray[np.float64]) -> Matrix:
        """(J, n): value less charge at prices (K,) in the problem's units; −∞ where a level is not allowed."""
        return np.where(self.allowed, self.value - self.charge(prices * self.unit / self.worth), -np.inf)

    def taken(self, level: Levels, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """(K,): amount that the rows take when account i is on its level ``counts_i`` times."""
        columns = np.arange(self.accounts)
        total = np.zeros(self.unit.size)
        for m in range(self.cost.shape[0]):
            paid = np.bincount(self.pattern, counts * self.cost[m, level, columns], minlength=self.loads.shape[1])
            total += paid @ self.loads[m]
        return total

    def columns(self, account: Levels, level: Levels) -> Matrix:
        """(K, e): amount that one account on one level takes from each row, for e pairs."""
        return np.asarray(np.einsum("mek,me->ke", self.loads[:, self.pattern[account]], self.cost[:, level, account]))


def power_of_two(size: ArrayLike) -> NDArray[np.float64]:
    """Powers of two next to sizes, 1 for a size of 0; dividing by them rounds nothing."""
    sizes = np.asarray(size, dtype=np.float64)
    exponent = np.clip(np.floor(np.log2(np.where(sizes > 0, sizes, 1.0))), -1021, 1021)
    return np.asarray(2.0**exponent)
