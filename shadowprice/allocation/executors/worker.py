"""Worker in another process: it holds shards and answers questions about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.population.sharded import Request
from shadowprice.allocation.population.source import Source
from shadowprice.allocation.population.tiled import Layout


class Taken(Exception):
    """The worker holds the shards of another problem."""


class Worker:
    """Holds some shards. Its whole state comes from their sources, so that another can take its place."""

    def __init__(self) -> None:
        self._problem, self._keep = "", False
        self._sources: dict[int, Source] = {}
        self._held: dict[int, Source] = {}

    def take(self, problem: str, sources: dict[int, Source], keep: bool) -> None:
        """Hold shards in place of those before.

        Args:
            problem: name of what the shards are of.
            sources: by the shard's number.
            keep: whether to load them on first use.
        """
        self._problem, self._sources, self._keep, self._held = problem, sources, keep, {}

    def answer(
        self, problem: str, layout: Layout, questions: Sequence[tuple[Request, str | None]]
    ) -> list[tuple[Any, NDArray[Any] | None]]:
        """Answers, each with the levels of the shard in the type that was asked for with the question.

        Raises:
            Taken: another problem's shards were taken meanwhile.
        """
        if problem != self._problem:
            raise Taken(problem)
        found = []
        for request, kind in questions:
            source = self._source(request.shard)
            into = None if kind is None else np.empty(source.accounts, dtype=kind)
            found.append((request.answer(source, layout, into), into))
        return found

    def _source(self, shard: int) -> Source:
        if not self._keep:
            return self._sources[shard]
        if shard not in self._held:
            self._held[shard] = self._sources[shard].held()
        return self._held[shard]
