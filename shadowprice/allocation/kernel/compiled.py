"""The kernel in C, called through ctypes; ``LIBRARY`` is None where it was not built."""

from __future__ import annotations

import ctypes
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.kernel import plain
from shadowprice.allocation.kernel.arguments import Bounds, Edges, Entry, Matrix, NetCost, Real, Scored, Tile

STEP = 2048
"""Free places the kernel wants before it scores on; the constant of the same name in fused.c."""

MARGINS = {np.dtype(np.float32): 4e-6, np.dtype(np.float64): 4e-9}
"""Lead that settles an account. float32 scores carry the level in 4 of their 24 bits and err by a few more."""

DEEPEST = 256
"""Levels the compiled climb takes; the constant of the same name in climb.c."""

Pointer = ctypes.c_void_p


class _Pass(ctypes.Structure):
    _fields_ = (
        ("levels", ctypes.c_int64),
        ("stride", ctypes.c_int64),
        ("allowed_stride", ctypes.c_int64),
        ("planes", ctypes.c_int64),
        ("measured", ctypes.c_int64),
        ("value", Pointer),
        ("cost", Pointer * 2),
        ("offset", Pointer),
        ("weight", Pointer * 2),
        ("table_offset", Pointer),
        ("table_weight", Pointer * 2),
        ("low", Pointer),
        ("high", Pointer),
        ("pattern", Pointer),
        ("allowed", Pointer),
        ("reach", ctypes.c_double * 3),
        ("margin", ctypes.c_double),
        ("packing", ctypes.c_int64),
        ("level", Pointer),
    )


class _Collected(ctypes.Structure):
    _fields_ = (
        ("sums", Pointer),
        ("account", Pointer),
        ("point", Pointer * 3),
        ("capacity", ctypes.c_int64),
        ("count", ctypes.c_int64),
    )


def _load() -> ctypes.CDLL | None:
    folder = Path(__file__).parent
    for suffix in EXTENSION_SUFFIXES:
        path = folder / f"_fused{suffix}"
        if path.exists():
            try:
                library = ctypes.CDLL(str(path))
            except OSError:  # built for another machine
                return None
            library.fused_pass.restype = ctypes.c_int64
            library.fused_pass.argtypes = [Pointer, Pointer, ctypes.c_int64, ctypes.c_int64, ctypes.c_int, ctypes.c_int]
            library.climb.restype = ctypes.c_int64
            library.climb.argtypes = [
                *[ctypes.c_int64] * 2,
                *[Pointer] * 3,
                *[ctypes.c_double] * 2,
                *[Pointer] * 4,
            ]
            library.gather_blocks.restype = None
            library.gather_blocks.argtypes = [*[ctypes.c_int64] * 3, Pointer, Pointer, *[ctypes.c_int64] * 2, Pointer]
            for scanner in (library.scan_f32, library.scan_f64):
                scanner.restype = ctypes.c_int64
                scanner.argtypes = [Pointer, ctypes.c_int64, Pointer]
            return library
    return None


LIBRARY = _load()
INSTRUCTIONS = LIBRARY.fused_best_instructions() if LIBRARY is not None else 0
"""0 plain C, 1 AVX2, 2 AVX-512."""


class _Room:
    """Growing buffers for the unsettled accounts."""

    def __init__(self, tile: Tile, capacity: int) -> None:
        self.tile = tile
        self.capacity = capacity
        self.account: NDArray[np.int64] = np.empty(capacity, dtype=np.int64)
        self.value: Real = self._matrix()
        self.planes = [self.value if plane is tile.value else self._matrix() for plane in tile.planes]

    def _matrix(self) -> Real:
        return np.empty((self.tile.value.shape[0], self.capacity), dtype=self.tile.value.dtype)

    def grow(self, count: int) -> _Room:
        larger = _Room(self.tile, self.capacity * 4)
        larger.account[:count] = self.account[:count]
        larger.value[:, :count] = self.value[:, :count]
        for new, old in zip(larger.planes, self.planes, strict=True):
            if old is not self.value:
                new[:, :count] = old[:, :count]
        return larger


def score(
    tile: Tile, cost: NetCost, low: NDArray[np.float64], high: NDArray[np.float64], *, levels: bool = True
) -> Scored:
    """Score every account at both ends of its pattern's price interval; see :class:`Scored`. O(J·n), one read."""
    assert LIBRARY is not None
    if tile.value.dtype == np.float32 and not (_ordinary(low) and _ordinary(high)):
        tile = tile.doubled()
    depth, n = tile.value.shape
    dtype = tile.value.dtype
    stride = tile.value.strides[0] // dtype.itemsize if depth > 1 else max(n, 1)
    sums = np.zeros((low.size, 4))
    level = np.empty(n, dtype=np.int32) if levels else None
    with np.errstate(under="ignore"):
        tables = [np.ascontiguousarray(table, dtype=np.float64) for table in (cost.offset, *cost.weights)]
        small = [table.astype(dtype) for table in tables]
        lows, highs = low.astype(dtype), high.astype(dtype)
    allowed = None if tile.allowed is None else tile.allowed.view(np.uint8)
    given = _Pass(
        levels=depth,
        stride=stride,
        allowed_stride=0 if allowed is None else allowed.strides[0],
        planes=len(tile.planes),
        measured=cost.measured,
        value=tile.value.ctypes.data,
        offset=small[0].ctypes.data,
        table_offset=tables[0].ctypes.data,
        low=lows.ctypes.data,
        high=highs.ctypes.data,
        pattern=None if tile.pattern is None else tile.pattern.ctypes.data,
        allowed=None if allowed is None else allowed.ctypes.data,
        margin=MARGINS[dtype],
        packing=1 << max(depth - 1, 1).bit_length(),
        level=None if level is None else level.ctypes.data,
    )
    given.margin = max(given.margin, given.packing * 4 * float(np.finfo(dtype).eps))
    for index, table in enumerate(tables):
        given.reach[index] = float(np.abs(table).max())
    for index, plane in enumerate(tile.planes):
        given.cost[index] = plane.ctypes.data
        given.weight[index] = small[index + 1].ctypes.data
        given.table_weight[index] = tables[index + 1].ctypes.data

    room = _Room(tile, min(n, max(n // 24, 2 * STEP)) + STEP)
    done = count = 0
    while True:
        out = _Collected(sums=sums.ctypes.data, account=room.account.ctypes.data, capacity=room.capacity, count=count)
        for index, matrix in enumerate((room.value, *room.planes)):
            out.point[index] = matrix.ctypes.data
        done = LIBRARY.fused_pass(ctypes.byref(given), ctypes.byref(out), done, n, dtype == np.float64, INSTRUCTIONS)
        count = out.count
        if done == n:
            break
        room = room.grow(count)
    account = room.account[:count]
    value = room.value[:, :count]
    return Scored(
        sums,
        Tile(
            value,
            tuple(value if plane is room.value else plane[:, :count] for plane in room.planes),
            None if tile.pattern is None else tile.pattern[account],
            None if tile.allowed is None else np.ascontiguousarray(tile.allowed[:, account]),
        ),
        account,
        level,
    )


def climb(value: Matrix, cost: Matrix, allowed: NDArray[np.bool_] | None, low: float, high: float) -> Edges:
    """Hull edges with slopes in [low, high] and the level above them. O(J·(edges + n))."""
    assert LIBRARY is not None
    depth, n = value.shape
    if depth > DEEPEST:
        return plain.climb(value, cost, allowed, low, high)
    value, cost = np.ascontiguousarray(value), np.ascontiguousarray(cost)
    mask = None if allowed is None else np.ascontiguousarray(allowed)
    most = max(1, n * (depth - 1))
    first = np.empty(n, dtype=np.int32)
    slope, step, account = np.empty(most), np.empty(most), np.empty(most, dtype=np.int64)
    count = LIBRARY.climb(
        depth,
        n,
        value.ctypes.data,
        cost.ctypes.data,
        None if mask is None else mask.ctypes.data,
        low,
        high,
        first.ctypes.data,
        slope.ctypes.data,
        step.ctypes.data,
        account.ctypes.data,
    )
    return Edges(first, slope[:count], step[:count], account[:count])


def scan(array: Real) -> Bounds:
    """Smallest and largest entry of a matrix, in one read."""
    assert LIBRARY is not None
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    scanner = LIBRARY.scan_f32 if array.dtype == np.float32 else LIBRARY.scan_f64
    ends = np.empty((array.shape[0], 2))
    unknown = 0
    for row, out in zip(array, ends, strict=True):
        row = np.ascontiguousarray(row)
        unknown += scanner(row.ctypes.data, row.size, out.ctypes.data)
    return Bounds(float(ends[:, 0].min()), float(ends[:, 1].max()), unknown == 0)


def gather(matrix: NDArray[Entry], starts: NDArray[np.int64], width: int) -> NDArray[Entry]:
    """(J, blocks·width): the blocks of ``width`` neighbouring columns that begin at ``starts``."""
    assert LIBRARY is not None
    depth, size = matrix.shape[0], matrix.dtype.itemsize
    out: NDArray[Entry] = np.empty((depth, starts.size * width), dtype=matrix.dtype)
    LIBRARY.gather_blocks(
        depth,
        matrix.strides[0] // size,
        size,
        matrix.ctypes.data,
        starts.ctypes.data,
        starts.size,
        width,
        out.ctypes.data,
    )
    return out


def _ordinary(prices: NDArray[np.float64]) -> bool:
    """Whether float32 holds the prices with all its digits and room for products."""
    positive = prices[prices > 0]
    return bool(positive.size == 0 or (positive.min() > 1e-30 and positive.max() < 1e30))
