"""Interface of a population of accounts, wherever they are kept: in memory, in files, or in other processes.

A solver asks two things of a population, and counts each as a round: a sample of blocks of
neighboring accounts, and a pass over all accounts at price intervals. What a pass returns adds up
over parts of the accounts: sums are added, unsettled accounts put side by side in the accounts' order.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation import kernel
from shadowprice.allocation.kernel import NetCost, Scored, Tile
from shadowprice.allocation.kernel.arguments import Levels, Matrix, Real, level_type
from shadowprice.allocation.population.sampling import WIDTH
from shadowprice.allocation.population.spend_curve import Points
from shadowprice.allocation.problem.solution import pick

CHUNK = 1 << 16


@dataclass(frozen=True, eq=False)
class Cheapest:
    """The least that can be spent: every account on its cheapest allowed level.

    spend    net cost of the accounts that count
    measure  what a mean per response is taken over
    value    worth of those levels
    level    (N,)
    """

    spend: float
    measure: float
    value: float
    level: Levels


class Population(Protocol):
    """Accounts that can be sampled and scored."""

    @property
    def accounts(self) -> int:
        """Number of accounts N."""

    @property
    def grain(self) -> int:
        """Number of neighboring accounts that are read as fast as one."""

    def sample(self, starts: NDArray[np.int64], width: int) -> Tile:
        """The blocks of ``width`` neighboring accounts that begin at ``starts`` (ascending), side by side."""

    def survey(self, starts: NDArray[np.int64], width: int) -> tuple[Tile, Tile | None]:
        """A sample, and all accounts of the shards that are too small to be sampled; None where there are none.

        A block may weigh as much as a whole small shard, such as that of the few merchants of many customers, and a
        sample of all accounts hardly sees it. The first tile is a sample of the other accounts.
        """

    def settle(self, costs: tuple[NetCost, ...], low: Matrix, high: Matrix, *, levels: bool = True) -> Scored:
        """One pass over all accounts with a bracket of M price intervals (M, patterns); see :func:`kernel.settle`."""

    def cheapest(self, cost: NetCost, member: NDArray[np.float64]) -> Cheapest:
        """One pass that finds out whether a limit can be met at all."""


@dataclass(frozen=True, eq=False)
class InMemory:
    """Accounts whose matrices are in this process.

    ``refuse`` is called when numbers turn up that no solver may use, and raises unless that was a false alarm; None
    where they were checked before.
    """

    tile: Tile
    refuse: Callable[[], None] | None = None

    @property
    def accounts(self) -> int:
        """Number of accounts N."""
        return self.tile.accounts

    @property
    def grain(self) -> int:
        """A cache line."""
        return WIDTH

    def sample(self, starts: NDArray[np.int64], width: int) -> Tile:
        """Copies of blocks; O(J·sample)."""
        tile = self.tile.mapped(lambda array: kernel.gather(array, starts, width))
        if self.refuse is not None and not _usable(tile.value, tile.planes):
            self.refuse()
        return tile

    def survey(self, starts: NDArray[np.int64], width: int) -> tuple[Tile, Tile | None]:
        """A sample: there are no shards."""
        return self.sample(starts, width), None

    def settle(self, costs: tuple[NetCost, ...], low: Matrix, high: Matrix, *, levels: bool = True) -> Scored:
        """One read of the matrices; the compiled pass takes one cost."""
        if len(costs) > 1:
            return kernel.settle(self.tile, costs, low, high, levels=levels)
        scored = kernel.score(self.tile, costs[0], low[0], high[0], levels=levels)
        if scored.suspect and self.refuse is not None:
            self.refuse()
        return scored

    def cheapest(self, cost: NetCost, member: NDArray[np.float64]) -> Cheapest:
        """One read in numpy, made only when a limit seems impossible."""
        spend = measure = value = 0.0
        level = np.empty(self.accounts, dtype=level_type(self.tile.value.shape[0]))
        for start in range(0, self.accounts, CHUNK):
            part = slice(start, min(self.accounts, start + CHUNK))
            points = Points.of(self.tile.take(part), cost, member)
            net = np.where(points.permitted, points.cost, np.inf)
            best = np.where(points.permitted & (net == net.min(axis=0)), points.value, -np.inf).argmax(axis=0)
            level[part] = best
            spend += float(pick(points.cost, best).sum())
            measure += float(pick(points.measure, best).sum())
            value += float(pick(points.value, best).sum())
        return Cheapest(spend, measure, value, level)


def _usable(value: Real, planes: tuple[Real, ...]) -> bool:
    """Return whether all numbers are finite and those of the planes not negative."""
    bounds = kernel.scan(value)
    others = [bounds if plane is value else kernel.scan(plane) for plane in planes]
    return bounds.finite and all(other.finite and other.least >= 0 for other in others)
