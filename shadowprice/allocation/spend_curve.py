"""Spend as a function of the price of money: exact, piecewise constant, falling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation import kernel
from shadowprice.allocation.kernel import Edges, NetCost, Tile
from shadowprice.allocation.kernel.arguments import Matrix


@dataclass(frozen=True, eq=False)
class Points:
    """A few accounts in float64: what each level is worth and what it takes.

    value    (J, n)
    cost     (J, n), net of the allowance; zero for accounts the limit does not count
    measure  (J, n), what a mean per response is taken over; zero where there is none or it is not counted
    allowed  bool (J, n) or None
    """

    value: Matrix
    cost: Matrix
    measure: Matrix
    allowed: NDArray[np.bool_] | None

    @property
    def permitted(self) -> NDArray[np.bool_]:
        """bool (J, n)."""
        return np.ones(self.value.shape, dtype=bool) if self.allowed is None else self.allowed

    @classmethod
    def of(cls, tile: Tile, cost: NetCost, member: NDArray[np.float64]) -> Points:
        """The points of a tile; ``member`` (patterns,) is 1 for patterns the limit counts."""
        net = np.broadcast_to(cost.of(tile.planes), tile.value.shape)
        measure = tile.planes[cost.measured - 1].astype(np.float64) if cost.measured else np.zeros(tile.value.shape)
        if tile.pattern is not None:
            net, measure = net * member[tile.pattern], measure * member[tile.pattern]
        return cls(tile.value.astype(np.float64), net, measure, tile.allowed)

    @property
    def terms(self) -> float:
        """A bound on the size of the sums that spends are made of."""
        return float(np.abs(self.cost[0]).sum())


@dataclass(frozen=True, eq=False)
class SpendCurve:
    """Spend of some accounts for prices in [low, high].

    start  spend at prices just above ``high``
    slope  (m,) falling, the prices at which spend jumps as the price falls
    spend  (m,), spend just below each of them
    edges  what the curve was made of
    base   (n,), what each account takes at prices just above ``high``
    """

    low: float
    high: float
    start: float
    slope: NDArray[np.float64]
    spend: NDArray[np.float64]
    edges: Edges
    base: NDArray[np.float64]

    @classmethod
    def of(cls, points: Points, low: float, high: float, settled: float = 0.0, times: float = 1.0) -> SpendCurve:
        """The curve of ``points``, each counted so many ``times``, plus a constant. O(J·edges + m·log m)."""
        edges = kernel.climb(points.value, points.cost, points.allowed, low, high)
        base = points.cost[edges.first, np.arange(edges.first.size)]
        start = settled + times * float(base.sum())
        order = np.argsort(-edges.slope)
        slope, spend = edges.slope[order], start + times * np.cumsum(edges.step[order])
        return cls(low, high, start, slope, spend, edges, base)

    def each(self, price: float) -> NDArray[np.float64]:
        """(n,): what each account takes just below a price in [low, high]."""
        bought = self.edges.slope >= price
        climbed = np.bincount(self.edges.account[bought], weights=self.edges.step[bought], minlength=self.base.size)
        return np.asarray(self.base + climbed, dtype=np.float64)

    def price(self, budget: float) -> float:
        """Highest price in [low, high] below which the budget would be exceeded; ``low`` where it never is."""
        if budget < self.start:
            return self.high
        index = int(np.searchsorted(self.spend, budget, side="right"))
        return self.low if index == self.slope.size else float(self.slope[index])

    @property
    def end(self) -> float:
        """Spend at prices just below ``low``, or without a price where ``low`` is zero."""
        return float(self.spend[-1]) if self.spend.size else self.start
