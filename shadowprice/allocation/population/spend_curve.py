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


@dataclass(frozen=True, eq=False)
class SpendCurve:
    """Spend of some accounts for prices in [low, high], each counted so many ``times``, plus a constant.

    start  spend at prices just above ``high``
    end    spend at prices just below ``low``, or without a price where ``low`` is zero
    terms  a bound on the size of the sums that spends are made of
    edges  what the curve is made of, in no order of prices
    """

    low: float
    high: float
    start: float
    end: float
    terms: float
    times: float
    edges: Edges

    @classmethod
    def of(
        cls,
        tile: Tile,
        cost: NetCost,
        member: NDArray[np.float64],
        low: float,
        high: float,
        settled: float = 0.0,
        times: float = 1.0,
    ) -> SpendCurve:
        """The curve of a tile; ``member`` (patterns,) is 1 for patterns that the limit counts. O(J·edges)."""
        edges = kernel.climb(tile, cost, member, low, high)
        start = settled + times * float(edges.base.sum())
        rise = times * float(edges.step.sum())
        terms = abs(settled) + times * float(np.abs(edges.base).sum()) + rise
        return cls(low, high, start, start + rise, terms, times, edges)

    def each(self, price: float) -> NDArray[np.float64]:
        """(n,): amount that each account takes just below a price in [low, high]."""
        bought = self.edges.slope >= price
        base = self.edges.base
        climbed = np.bincount(self.edges.account[bought], weights=self.edges.step[bought], minlength=base.size)
        return np.asarray(base + climbed, dtype=np.float64)

    def beside(self, other: SpendCurve, share: float) -> SpendCurve:
        """Return the spend of these accounts and ``share`` times that of others, for prices in the same interval."""
        mine, theirs = self.edges, other.edges
        times = share * other.times / self.times
        edges = Edges(
            np.concatenate([mine.first, theirs.first]),
            np.concatenate([mine.base, times * theirs.base]),
            np.concatenate([mine.slope, theirs.slope]),
            np.concatenate([mine.step, times * theirs.step]),
            np.concatenate([mine.account, mine.base.size + theirs.account]),
        )
        start, end = self.start + share * other.start, self.end + share * other.end
        return SpendCurve(self.low, self.high, start, end, self.terms + share * other.terms, self.times, edges)

    def price(self, budget: float) -> float:
        """Highest price in [low, high] below which the budget would be exceeded; ``low`` where it never is."""
        if budget < self.start:
            return self.high
        left = (budget - self.start) / self.times
        return kernel.select(self.edges.slope, self.edges.step, left, self.low)

    @property
    def steepest(self) -> float:
        """The highest price at which spend jumps; where it never does, ``low``, or next to nothing."""
        slope = self.edges.slope
        return float(slope.max()) if slope.size else max(self.low, float(np.finfo(float).tiny))
