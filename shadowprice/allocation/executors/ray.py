"""Shards on Ray actors, which keep them from one solve to the next.

A round of questions costs milliseconds whatever the work, so a solve asks as few as it can: a sample and a pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.population.sampling import WIDTH
from shadowprice.allocation.population.sharded import Request, Team
from shadowprice.allocation.population.source import Sharded, Source
from shadowprice.allocation.population.tiled import Layout
from shadowprice.checks import require
from shadowprice.on_ray.parts import Actors


class RayExecutor:
    """Solves on Ray actors: ``with RayExecutor(workers=4) as executor: solve(problem, executor)``.

    Args:
        workers: actors.
        shards: parts that a problem in memory or a campaign is cut into; as many as workers by default.
        keep: whether actors load their shards; otherwise they read the files anew at each pass, with little memory.
        address: of a Ray cluster; by default the one this process is connected to, else ``RAY_ADDRESS``, else Ray is
            started on this machine and stopped by :meth:`close`.

    A stored problem's folder must be readable by every worker at the same path. Actors keep their shards until another
    problem is solved, whose shards they take in place; a folder that was not written anew is the same problem whatever
    its limits. A dead actor is replaced and loads its shards again.

    rounds  questions that the last solve put to all shards
    pool    the actors

    Raises:
        MissingExtra: Ray is not installed.
    """

    def __init__(
        self, workers: int = 2, *, shards: int | None = None, keep: bool = True, address: str | None = None
    ) -> None:
        require(workers >= 1, "workers", "must be at least 1")
        require(shards is None or shards >= 1, "shards", "must be at least 1")
        self.shards, self.keep = shards or workers, keep
        self.rounds = 0
        self.pool = Actors(workers, address=address)
        self._held: tuple[object, Sequence[Source], Team] | None = None

    def hold(self, problem: Sharded) -> tuple[Sequence[Source], Team]:
        """Take the shards of a problem, or keep those it holds already."""
        if self._held is None or self._held[0] != problem.identity:
            sources = problem.shards(self.shards)
            self._held = (problem.identity, sources, _Shared(self.pool, sources, keep=self.keep))
        return self._held[1], self._held[2]

    def close(self) -> None:
        """End the actors, and Ray where this executor started it."""
        self._held = None
        self.pool.close()

    def __enter__(self) -> RayExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Shared:
    """A team of actors; actor w holds every W-th shard."""

    def __init__(self, actors: Actors, sources: Sequence[Source], *, keep: bool) -> None:
        self.sizes = [source.accounts for source in sources]
        self.grain = WIDTH if keep else max(source.grain for source in sources)
        # Levels travel in the smallest type that holds them.
        self._small = np.min_scalar_type(sources[0].levels - 1).str
        self._actors, count = actors, actors.workers
        parts = [dict(list(enumerate(sources))[worker::count]) for worker in range(count)]
        self._held = [actors.send(_Shards(part, keep=keep)) for part in parts]

    def ask(self, layout: Layout, requests: Sequence[Request]) -> list[Any]:
        """One round."""
        asked = [
            (
                shard_request.shard,
                (layout, replace(shard_request, into=None), None if shard_request.into is None else self._small),
            )
            for shard_request in requests
        ]
        answers = []
        for request, (answer, level) in zip(requests, self._actors.at_once(self._held, asked), strict=True):
            if request.into is not None:
                request.into[:] = level
            answers.append(answer)
        return answers


class _Shards:
    """Shards of one actor, by their numbers; loaded on first use where they are kept."""

    def __init__(self, sources: Mapping[int, Source], *, keep: bool) -> None:
        self._sources, self._keep = dict(sources), keep

    def __call__(self, part: tuple[Layout, Request, str | None]) -> tuple[Any, NDArray[Any] | None]:
        """Answer a question; the levels have the type that was asked for."""
        layout, request, kind = part
        if self._keep:
            self._sources[request.shard] = self._sources[request.shard].held()
        source = self._sources[request.shard]
        into = None if kind is None else np.empty(source.accounts, dtype=kind)
        return request.answer(source, layout, into), into
