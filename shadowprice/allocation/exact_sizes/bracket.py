"""Brackets of the prices of segments: intervals of price differences, from samples that are solved exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.exact_sizes.plan import Real
from shadowprice.allocation.kernel import exact_sizes, gather, place
from shadowprice.allocation.kernel.place import UNBOUNDED
from shadowprice.allocation.population.sampling import WIDTH, strata

Matrix = NDArray[np.float64]

GROUPS = 8
"""Samples that are solved separately; the spread of their prices estimates the error of their mean."""

CONFIDENCE = 3.0
"""Standard errors between the mean and either end of an interval: a miss costs a pass."""

SCARCE = 8
"""Size of a segment in a sample below which its price is an extreme and not a mean; the samples' hull is kept."""


@dataclass(frozen=True, eq=False)
class Bracket:
    """Prices (J,) between ``low`` and ``high``, ``center`` the likeliest.

    Only differences of prices matter; the bracket holds those whose mean with ``weight`` (J,) is 0. ``UNBOUNDED``
    stands for no bound, and as ``low`` for a closed segment, which is too dear for every account.
    """

    low: Matrix
    high: Matrix
    center: Matrix
    weight: Matrix

    @classmethod
    def everywhere(cls, center: Matrix, demand: NDArray[np.int64]) -> Bracket:
        """Return a bracket without bounds; segments without demand are closed."""
        closed = demand == 0
        low = np.where(closed, UNBOUNDED, -UNBOUNDED)
        weight = demand / demand.sum()
        return cls(low, np.full(low.size, UNBOUNDED), np.where(closed, UNBOUNDED, center - weight @ center), weight)

    @property
    def closed(self) -> NDArray[np.bool_]:
        """bool (J,): segments that no account may enter."""
        return np.asarray(self.low >= UNBOUNDED, dtype=np.bool_)

    def within(self, other: Bracket) -> Bracket:
        """Intersection with ``other``, or its nearest point where the two are disjoint."""
        # The prices of ``other`` with the mean of this bracket taken off them.
        least = np.maximum(other.low - self._mean(other.high), -UNBOUNDED)
        most = np.minimum(other.high - self._mean(other.low), UNBOUNDED)
        least[self.closed] = most[self.closed] = UNBOUNDED
        low, high = np.clip(self.low, least, most), np.clip(self.high, least, most)
        return Bracket(low, high, np.clip(self.center, low, high), self.weight)

    def _mean(self, bounds: Matrix) -> float:
        counted = bounds[self.weight > 0]
        mean = float(self.weight[self.weight > 0] @ counted)
        return mean if (np.abs(counted) < UNBOUNDED).all() else float(np.copysign(UNBOUNDED, mean))

    def widened(self, times: float, least: float) -> Bracket:
        """Widen by a factor, and by at least ``least`` on either side; unbounded sides stay unbounded."""

        def end(bound: Matrix, sign: float) -> Matrix:
            moved = self.center + times * (bound - self.center) + sign * least
            return np.where(np.abs(bound) >= UNBOUNDED, bound, moved)

        return Bracket(end(self.low, -1.0), end(self.high, 1.0), self.center, self.weight)

    @property
    def least(self) -> Matrix:
        """(J, J), an upper bound on every difference π_a − π_b of prices in the bracket."""
        return np.asarray(self.high[:, None] - self.low, dtype=np.float64)


def supporting(least: Matrix) -> Matrix | None:
    """Prices π with π_a − π_b ≤ least_ab for all a, b, away from every bound; None where no prices keep to them.

    Lengths of shortest paths to, and minus those from, any one node are such prices, and so is their mean. O(J³).
    Source: Floyd and Warshall; bounds without end are given as ``UNBOUNDED`` or infinity.
    """
    finite = least < UNBOUNDED / 2
    np.fill_diagonal(finite, False)
    scale = float(np.abs(least[finite]).max(initial=0.0))
    # Longer than any path of bounded arcs, so that what is free stays near what is not.
    length = np.where(finite, least, 2.0 * scale * least.shape[0])
    np.fill_diagonal(length, 0.0)
    for middle in range(length.shape[0]):
        np.minimum(length, length[:, middle : middle + 1] + length[middle], out=length)
    if (np.diag(length) < -1e-12 * scale).any():
        return None
    return np.asarray((length.mean(axis=1) - length.mean(axis=0)) / 2.0, dtype=np.float64)


def sampled(
    value: Real, allowed: NDArray[np.bool_] | None, demand: NDArray[np.int64], bracket: Bracket, size: int
) -> tuple[Bracket, float]:
    """A bracket that very likely holds the prices, and the share of accounts it will leave unsettled.

    From ``GROUPS`` samples of about ``size`` accounts each; O(J·sample).
    """
    depth, n = value.shape
    width = min(WIDTH, n)
    starts = strata(n, GROUPS * size)
    starts = starts[: starts.size // GROUPS * GROUPS]
    tile = gather(value, starts, width)
    if allowed is not None:
        tile[~gather(allowed, starts, width)] = -np.inf
    closed = bracket.closed
    tile[closed] = -np.inf
    # Neighboring blocks go to different samples, so that clustering shows in their spread.
    rows = np.empty((tile.shape[1], depth))
    rows.reshape(GROUPS, -1, width, depth)[:] = tile.reshape(depth, -1, GROUPS, width).transpose(2, 1, 3, 0)
    sizes = np.full(GROUPS, tile.shape[1] // GROUPS)
    if allowed is not None:
        # Who may only enter closed segments is no part of any plan.
        some = np.isfinite(rows).any(axis=1)
        sizes = some.reshape(GROUPS, -1).sum(axis=1)
        rows = rows[some]
    wanted = _shares(demand, sizes)
    prices, reached = np.where(closed, 0.0, bracket.center), np.ones((GROUPS, depth), dtype=bool)
    solved = np.empty((GROUPS, depth))
    for group, rows_of in enumerate(np.split(rows, np.cumsum(sizes)[:-1])):
        # Every sample starts from the prices of the one before.
        sized = exact_sizes(rows_of, wanted[group], prices)
        solved[group] = prices = sized.prices
        if sized.reached is not None:
            reached[group] = sized.reached
    weight = demand / demand.sum()
    solved = solved - (solved @ weight)[:, None]
    fewest = wanted.min(axis=0)
    center = solved.mean(axis=0)
    error = solved.std(axis=0, ddof=1) / GROUPS**0.5
    # One spread from so few samples is itself uncertain; that of all segments, which goes with 1/√demand, is less so.
    share = 1.0 / np.sqrt(np.maximum(demand, 1))
    common = share * np.sqrt(np.mean((error / share)[demand > 0] ** 2))
    reach = CONFIDENCE * np.sqrt((error**2 + common**2) / 2)
    low, high = center - reach, center + reach
    scarce = fewest < SCARCE
    low[scarce] = np.minimum(low, solved.min(axis=0) - reach)[scarce]
    high[scarce] = np.maximum(high, solved.max(axis=0) + reach)[scarce]
    # No account of some sample takes these, so nothing bounds their prices from above.
    high[fewest == 0] = UNBOUNDED
    # Some sample had too few accounts for these: they may be any cheaper.
    low[~reached.all(axis=0)] = -UNBOUNDED
    low[closed] = high[closed] = UNBOUNDED
    inner = Bracket(low, high, center, weight).within(bracket)
    return inner, place(tile, None, inner.low, inner.high).account.size / tile.shape[1]


def _shares(demand: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.int64]:
    """(samples, J): whole demands of samples of ``size`` accounts, which together keep to the shares within 1."""
    total = demand.cumsum()
    together = np.zeros((size.size + 1, demand.size + 1), dtype=np.int64)
    together[1:, 1:] = total * (size.cumsum()[:, None] / float(total[-1])) + 0.5
    together[1:, -1] = size.cumsum()
    wanted = together[1:] - together[:-1]
    wanted = wanted[:, 1:] - wanted[:, :-1]
    for row, short in np.argwhere(wanted < 0).tolist():
        wanted[row, int(wanted[row].argmax())] += wanted[row, short]
        wanted[row, short] = 0
    return np.asarray(wanted, dtype=np.int64)
