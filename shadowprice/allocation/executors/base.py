"""Interface of the executors of a solve, and the one in this process."""

from collections.abc import Sequence
from typing import Any, Protocol

from shadowprice.allocation.population.sharded import Request, Team
from shadowprice.allocation.population.source import Sharded, Source
from shadowprice.allocation.population.tiled import Layout


class Executor(Protocol):
    """Holds the shards of a problem and answers questions about them."""

    rounds: int
    """Questions that the last solve put to all shards."""

    def hold(self, problem: Sharded) -> tuple[Sequence[Source], Team]:
        """Take the shards of a problem, or keep those it holds already."""

    def close(self) -> None:
        """Release all resources; called when a solve is interrupted."""


class InProcess:
    """Reads the shards in this process, one after the other."""

    def __init__(self) -> None:
        self.rounds = 0

    def hold(self, problem: Sharded) -> tuple[Sequence[Source], Team]:
        """Do nothing: data are read when they are needed."""
        sources = problem.shards(1)
        return sources, Here(sources)

    def close(self) -> None:
        """Do nothing: no resources are held."""


class Here:
    """Shards that are read where the question is asked."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self.sizes = [source.accounts for source in sources]
        self.grain = max(source.grain for source in sources)

    def ask(self, layout: Layout, requests: Sequence[Request]) -> list[Any]:
        """Answers, one after the other."""
        return [request.answer(self._sources[request.shard], layout, request.into) for request in requests]
