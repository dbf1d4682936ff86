"""Accounts in several shards, each asked at the same time: a question to all of them is one round."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.kernel import NetCost, Scored, Tile
from shadowprice.allocation.kernel.arguments import Matrix
from shadowprice.allocation.population.merging import cut, join, merge, merge_cheapest
from shadowprice.allocation.population.population import Cheapest
from shadowprice.allocation.population.source import Source
from shadowprice.allocation.population.tiled import Layout, Tiled


@dataclass(frozen=True, eq=False)
class Request:
    """A question to one shard.

    method     of :class:`Tiled`
    arguments  for it
    into       where the levels of the shard's accounts go, or None when there are none
    """

    shard: int
    method: str
    arguments: tuple[Any, ...] = ()
    into: NDArray[np.int32] | None = None

    def answer(self, source: Source, layout: Layout, into: NDArray[Any] | None) -> Any:
        """Ask the shard; what is returned holds no levels."""
        ask = getattr(Tiled(source, layout), self.method)
        return ask(*self.arguments) if into is None else replace(ask(*self.arguments, into), level=into[:0])


class Team(Protocol):
    """Team of processes that hold the shards."""

    @property
    def sizes(self) -> Sequence[int]:
        """Accounts of each shard."""

    @property
    def grain(self) -> int:
        """Number of neighboring accounts that are read as fast as one."""

    def ask(self, layout: Layout, requests: Sequence[Request]) -> list[Any]:
        """Answers in the order of the requests, which name each shard at most once. One round."""


SMALL = 1024
"""Accounts of shards that are surveyed whole, at most, together, where others have more."""

Buffer = Callable[[int], NDArray[np.int32]]
"""Function that returns the buffer for the levels of that many accounts."""


def empty(accounts: int) -> NDArray[np.int32]:
    """Buffer in memory."""
    return np.empty(accounts, dtype=np.int32)


class ShardedPopulation:
    """The accounts of all shards in the shards' order.

    Blocks are drawn by position among all accounts, and sums are added in the shards' order. The answers therefore do
    not depend on the process that holds a shard. The size of shards changes only the last bits of sums.

    rounds  questions asked so far
    """

    def __init__(self, team: Team, layout: Layout, buffer: Buffer = empty) -> None:
        self._team, self._layout, self._buffer = team, layout, buffer
        self._ends = np.concatenate([[0], np.cumsum(team.sizes)]).astype(int).tolist()
        self.rounds = 0

    @property
    def accounts(self) -> int:
        """Number of accounts N."""
        return int(self._ends[-1])

    @property
    def grain(self) -> int:
        """Return the layout that the shards use where they are held."""
        return self._team.grain

    def sample(self, starts: NDArray[np.int64], width: int) -> Tile:
        """One round; a block may lie across shards."""
        return join(self._ask(self._blocks(starts, width)))

    def survey(self, starts: NDArray[np.int64], width: int) -> tuple[Tile, Tile | None]:
        """One round."""
        small = {shard: size for shard, size in enumerate(self._team.sizes) if size <= SMALL}
        requests = [block for block in self._blocks(starts, width) if block.shard not in small]
        if not small or not requests or sum(small.values()) > SMALL:
            return self.sample(starts, width), None
        sampled = len(requests)
        everyone = np.zeros(1, dtype=np.int64)
        requests += [Request(shard, "pieces", ([(everyone, size)],)) for shard, size in small.items()]
        tiles = self._ask(requests)
        return join(tiles[:sampled]), join(tiles[sampled:])

    def _blocks(self, starts: NDArray[np.int64], width: int) -> list[Request]:
        parts = enumerate(cut(starts, width, begin, end) for begin, end in pairwise(self._ends))
        return [Request(shard, "pieces", (pieces,)) for shard, pieces in parts if pieces]

    def settle(self, costs: tuple[NetCost, ...], low: Matrix, high: Matrix, *, levels: bool = True) -> Scored:
        """One round, one read of every shard."""
        level = self._buffer(self.accounts) if levels else None
        return merge(self._all("settle", (costs, low, high), level), self._ends[:-1], level)

    def cheapest(self, cost: NetCost, member: NDArray[np.float64]) -> Cheapest:
        """One round, one read of every shard."""
        level = self._buffer(self.accounts)
        return merge_cheapest(self._all("cheapest", (cost, member), level), level)

    def _all(self, method: str, arguments: tuple[Any, ...], level: NDArray[np.int32] | None) -> list[Any]:
        return self._ask(
            [
                Request(shard, method, arguments, None if level is None else level[begin:end])
                for shard, (begin, end) in enumerate(pairwise(self._ends))
            ]
        )

    def _ask(self, requests: Sequence[Request]) -> list[Any]:
        self.rounds += 1
        return self._team.ask(self._layout, requests)
