"""Merge the results of passes over parts of the accounts, in the accounts' order."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.kernel import Scored, Tile
from shadowprice.allocation.kernel.arguments import Levels
from shadowprice.allocation.population.population import Cheapest

Piece = tuple[NDArray[np.int64], int]
"""Starts of blocks and their common width."""


def join(tiles: Sequence[Tile]) -> Tile:
    """Tiles side by side; at least one."""
    if len(tiles) == 1:
        return tiles[0]
    first = tiles[0]
    value = np.concatenate([tile.value for tile in tiles], axis=1)
    return Tile(
        value,
        tuple(
            value if plane is first.value else np.concatenate([tile.planes[at] for tile in tiles], axis=1)
            for at, plane in enumerate(first.planes)
        ),
        None if first.pattern is None else np.concatenate([tile.pattern for tile in tiles if tile.pattern is not None]),
        None
        if first.allowed is None
        else np.concatenate([tile.allowed for tile in tiles if tile.allowed is not None], axis=1),
    )


def merge(parts: Sequence[Scored], starts: Sequence[int], level: Levels | None) -> Scored:
    """One pass from those over parts that begin at ``starts``; sums are added in that order."""
    sums = np.array(parts[0].sums)
    for part in parts[1:]:
        sums += part.sums
    account = np.concatenate([start + part.account for start, part in zip(starts, parts, strict=True)])
    return Scored(sums, join([part.open for part in parts]), account, level)


def compact(scored: Scored) -> Scored:
    """Return a copy without the unused space of the kernel's buffers, and without levels."""
    tile = scored.open
    value = np.ascontiguousarray(tile.value)
    planes = tuple(value if plane is tile.value else np.ascontiguousarray(plane) for plane in tile.planes)
    return Scored(scored.sums, replace(tile, value=value, planes=planes), np.array(scored.account), None)


def merge_cheapest(parts: Sequence[Cheapest], level: Levels) -> Cheapest:
    """One answer from those of parts."""
    return Cheapest(
        sum(part.spend for part in parts), sum(part.measure for part in parts), sum(part.value for part in parts), level
    )


def cut(starts: NDArray[np.int64], width: int, begin: int, end: int) -> list[Piece]:
    """The parts of blocks that lie within accounts [begin, end), in order, counted from ``begin``.

    At most the first and the last block of a part are cut.
    """
    inside = starts[(starts + width > begin) & (starts < end)]
    first, last = np.maximum(inside, begin), np.minimum(inside + width, end)
    size = last - first
    # Neighboring blocks of one width are one piece.
    ends = np.flatnonzero(np.diff(size)) + 1
    return [
        (part - begin, int(widths[0]))
        for part, widths in zip(np.split(first, ends), np.split(size, ends), strict=True)
        if part.size
    ]
