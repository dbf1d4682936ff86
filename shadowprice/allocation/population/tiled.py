"""Accounts that are read, or computed, a tile at a time; only sums and the few unsettled accounts are kept."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.kernel import NetCost, Scored, Tile
from shadowprice.allocation.kernel.arguments import Matrix
from shadowprice.allocation.population.mapped import advise
from shadowprice.allocation.population.merging import Piece, compact, join, merge, merge_cheapest
from shadowprice.allocation.population.population import Cheapest, InMemory
from shadowprice.allocation.population.source import Arrays, Assembly, Source
from shadowprice.allocation.problem.problem import Problem
from shadowprice.errors import InvalidProblem

Answer = TypeVar("Answer")

Tiler = Callable[[Problem], InMemory]
"""Layout of some accounts for the kernel; numbers are checked then, or by ``refuse``."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Recipe that turns the arrays of some accounts into the form that a solver takes.

    assembly  makes them a problem
    tiler     the solver's; None where only memberships are asked for
    names     the arrays that take part
    limiting  those of them that the limits are made of
    """

    assembly: Assembly
    tiler: Tiler | None
    names: frozenset[str]
    limiting: frozenset[str]

    def __call__(self, arrays: Arrays) -> InMemory:
        """The accounts; their matrices are the arrays themselves where their types allow it."""
        assert self.tiler is not None
        return self.tiler(self.assembly(arrays))


@dataclass(frozen=True, eq=False)
class Tiled:
    """The accounts of a source. Every pass checks what it reads.

    Memory: two tiles, and the unsettled accounts, which are few unless many accounts are alike.
    """

    source: Source
    layout: Layout

    def pieces(self, pieces: list[Piece]) -> Tile:
        """Copies of blocks of several widths, side by side."""
        tiles = []
        for starts, width in pieces:
            arrays = self.source.blocks(starts, width, self.layout.names)
            everyone, size = np.zeros(1, dtype=np.int64), starts.size * width
            with _located(self.source.name, (starts[:, None] + np.arange(width)).ravel()):
                tiles.append(self.layout(arrays).sample(everyone, size))
        return join(tiles)

    def settle(self, costs: tuple[NetCost, ...], low: Matrix, high: Matrix, into: NDArray[Any] | None = None) -> Scored:
        """One read; ``into`` (N,), of any integer type, takes the levels where they are wanted."""
        starts: list[int] = []
        parts: list[Scored] = []
        for start, scored in self._each(lambda tile: tile.settle(costs, low, high, levels=into is not None)):
            if into is not None and scored.level is not None:
                _put(into, start, scored.level)
            starts.append(start)
            parts.append(compact(scored))
        return merge(parts, starts, into)

    def cheapest(self, cost: NetCost, member: NDArray[np.float64], into: NDArray[Any]) -> Cheapest:
        """One read; ``into`` (N,), of any integer type, takes the levels."""
        parts = []
        for start, part in self._each(lambda tile: tile.cheapest(cost, member)):
            _put(into, start, part.level)
            parts.append(part)
        return merge_cheapest(parts, into)

    def memberships(self) -> dict[bytes, int]:
        """Count the accounts of each combination of memberships, a byte (0 or 1) for each limit."""
        counts: dict[bytes, int] = {}
        for _, arrays in self.source.tiles(self.layout.limiting):
            limits = self.layout.assembly.resources_of(arrays)
            n = next(iter(arrays.values())).shape[-1]
            masks = np.ones((n, len(limits)), dtype=bool)
            for column, limit in enumerate(limits):
                if limit.members is not None:
                    masks[:, column] = limit.members
            for kind, count in count_rows(masks).items():
                counts[kind] = counts.get(kind, 0) + count
        return counts

    def _each(self, ask: Callable[[InMemory], Answer]) -> Iterator[tuple[int, Answer]]:
        for start, arrays in self.source.tiles(self.layout.names):
            with _located(self.source.name, start):
                answer = ask(self.layout(arrays))
            yield start, answer


@contextmanager
def _located(name: str, place: int | NDArray[np.int64]) -> Iterator[None]:
    """Translate account numbers in an error into those of the source."""
    try:
        yield
    except InvalidProblem as error:
        rows = [row + place if isinstance(place, int) else int(place[row]) for row in error.rows]
        raise InvalidProblem(error.reason, field=f"{name}: {error.field}", rows=rows) from None


def _put(level: NDArray[Any], start: int, part: NDArray[np.signedinteger[Any]]) -> None:
    level[start : start + part.size] = part
    advise(level, start, start + part.size, "DONTNEED")


def count_rows(masks: NDArray[np.bool_]) -> dict[bytes, int]:
    """Count each distinct row of (n, K) booleans, by its bytes. O(K·n), and O(n·log n) for more than 8 columns."""
    columns = masks.shape[1]
    if columns <= 8:
        code = np.zeros(masks.shape[0], dtype=np.uint8)
        for column in range(columns):
            code |= masks[:, column].astype(np.uint8) << column
        counts = np.bincount(code, minlength=1 << columns)
        kinds = (np.arange(1 << columns)[:, None] >> np.arange(columns) & 1).astype(np.uint8)
    else:
        kinds, counts = np.unique(masks.view(np.uint8), axis=0, return_counts=True)
    return {kind.tobytes(): int(count) for kind, count in zip(kinds, counts, strict=True) if count}
