"""A problem in the form that solvers take, wherever its accounts are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.executors.base import Executor, InProcess
from shadowprice.allocation.population.population import Population
from shadowprice.allocation.population.sharded import Buffer, Request, ShardedPopulation, Team, empty
from shadowprice.allocation.population.source import Assembly, Sharded, Source
from shadowprice.allocation.population.tiled import Layout, Tiler, count_rows
from shadowprice.allocation.problem.problem import Problem
from shadowprice.allocation.sources.memory import MemoryProblem

FEW = 8
"""Number of accounts read to learn the form of the limits."""


@dataclass(frozen=True, eq=False)
class Opened:
    """Accounts that can be sampled and scored, and the limits on them.

    example      a problem with the limits, of all accounts or of a few of them
    accounts     N
    populate     the accounts as a solver lays them out
    memberships  () -> how many accounts are members of which limits, by combination (a byte 0 or 1 for each limit)
    """

    example: Problem
    accounts: int
    populate: Callable[[Tiler], Population]
    memberships: Callable[[], dict[bytes, int]]

    @classmethod
    def of(cls, problem: Problem | Opened) -> Opened:
        """A problem in memory; what is open already stays as it is."""
        if isinstance(problem, Opened):
            return problem
        source = problem

        def memberships() -> dict[bytes, int]:
            masks = np.stack([source.members(resource) for resource in source.resources], axis=1)
            return count_rows(masks)

        return cls(source, source.shape[1], lambda tiler: tiler(source), memberships)

    @cached_property
    def combinations(self) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """bool (patterns, K), which limits count an account, in ascending order, and how many accounts there are."""
        limits = self.example.resources
        if all(limit.members is None for limit in limits):
            return np.ones((1, len(limits)), dtype=bool), np.array([self.accounts])
        counted = sorted(self.memberships().items())
        kinds = np.array([np.frombuffer(kind, dtype=np.uint8) for kind, _ in counted]) > 0
        return kinds, np.array([count for _, count in counted])

    @cached_property
    def counted(self) -> NDArray[np.int64]:
        """int (K,): how many accounts each limit counts."""
        kinds, counts = self.combinations
        return np.asarray(counts @ kinds, dtype=np.int64)


class OpenedShards:
    """Shards that a team holds.

    opened  what solvers take
    """

    def __init__(self, problem: Sharded, first: Source, team: Team, buffer: Buffer = empty) -> None:
        self._team, self._buffer = team, buffer
        self._assembly = Assembly(problem.resources)
        few = first.blocks(np.zeros(1, dtype=np.int64), min(FEW, first.accounts), first.names)
        example, self._limiting = self._assembly.needs(few)
        self._names = self._limiting | ({"value", "allowed"} & first.names)
        self._populations: list[ShardedPopulation] = []
        self._counts = 0
        self.opened = Opened(example, sum(team.sizes), self._populate, self._memberships)

    @property
    def rounds(self) -> int:
        """Questions that were put to all shards."""
        return self._counts + sum(population.rounds for population in self._populations)

    def _populate(self, tiler: Tiler) -> ShardedPopulation:
        layout = Layout(self._assembly, tiler, self._names, self._limiting)
        population = ShardedPopulation(self._team, layout, self._buffer)
        self._populations.append(population)
        return population

    def _memberships(self) -> dict[bytes, int]:
        self._counts += 1
        layout = Layout(self._assembly, None, self._names, self._limiting)
        counts: dict[bytes, int] = {}
        for part in self._team.ask(layout, [Request(at, "memberships") for at in range(len(self._team.sizes))]):
            for kind, count in part.items():
                counts[kind] = counts.get(kind, 0) + count
        return counts


@contextmanager
def open_shards(problem: Problem | Sharded, executor: Executor | None, buffer: Buffer = empty) -> Iterator[Opened]:
    """The accounts of a problem where an executor holds them; an interruption releases them."""
    executor = executor or InProcess()
    try:
        sharded = MemoryProblem(problem) if isinstance(problem, Problem) else problem
        sources, team = executor.hold(sharded)
        shards = OpenedShards(sharded, sources[0], team, buffer)
        try:
            yield shards.opened
        finally:
            executor.rounds = shards.rounds
    except BaseException as error:
        if not isinstance(error, Exception):
            executor.close()
        raise
