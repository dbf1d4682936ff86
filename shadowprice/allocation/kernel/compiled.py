"""The kernel in C, called through ctypes; ``LIBRARY`` is None where it was not built."""

from __future__ import annotations

import ctypes
import os
import threading
import warnings
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.kernel import plain
from shadowprice.allocation.kernel.arguments import Bounds, Edges, Entry, Matrix, NetCost, Real, Scored, Tile

VERSION = 2
"""Of the structures and functions below; fused.c has it in the name of a function."""

STEP = 2048
"""Free places the kernel wants before it scores on; the constant of the same name in fused.c."""

MARGINS = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 4e-9}
"""Lead that settles an account, as a share of the terms of its scores: eight units in the last place of float32,
of which a score and its rival lose at most six; above the tie tolerance of the decision in float64."""

DEEPEST = 256
"""Levels the compiled climb takes; the constant of the same name in climb.c."""

THREADS = int(os.environ.get("OMP_NUM_THREADS") or 0) or len(os.sched_getaffinity(0))
"""Threads of a large pass."""

Pointer = ctypes.c_void_p


PIECE = 1 << 18
"""Accounts that one thread takes at a time. Sums are added up piece by piece: threads do not change them."""

THREADED = 1 << 22
"""Entries of a matrix from which a second thread is worth its start."""


class _Pass(ctypes.Structure):
    _fields_ = (
        ("levels", ctypes.c_int64),
        ("stride", ctypes.c_int64),
        ("allowed_stride", ctypes.c_int64),
        ("planes", ctypes.c_int64),
        ("measured", ctypes.c_int64),
        ("patterns", ctypes.c_int64),
        ("value", Pointer),
        ("cost", Pointer * 2),
        ("table", Pointer * 3),
        ("low", Pointer),
        ("high", Pointer),
        ("pattern", Pointer),
        ("allowed", Pointer),
        ("reach", ctypes.c_double * 3),
        ("margin", ctypes.c_double),
        ("packing", ctypes.c_int64),
        ("level", Pointer),
        ("small", Pointer),
    )


class _Collected(ctypes.Structure):
    _fields_ = (
        ("sums", Pointer),
        ("account", Pointer),
        ("point", Pointer * 3),
        ("capacity", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("suspect", ctypes.c_int64),
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
            if not hasattr(library, f"fused_version_{VERSION}"):
                warnings.warn(
                    "the compiled allocation kernel was built from other sources and is not used; build it again: "
                    "python -c 'from setuptools import setup; setup()' build_ext --inplace",
                    RuntimeWarning,
                    stacklevel=2,
                )
                return None
            library.fused_pass.restype = ctypes.c_int64
            library.fused_pass.argtypes = [Pointer, Pointer, ctypes.c_int64, ctypes.c_int64, ctypes.c_int, ctypes.c_int]
            library.fused_prepare.restype = None
            library.fused_prepare.argtypes = [Pointer, ctypes.c_int]
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


class _Piece:
    """Accounts [start, stop) on their way through the pass, and growing room for the unsettled ones."""

    def __init__(self, tile: Tile, start: int, stop: int, patterns: int) -> None:
        self.tile, self.start, self.stop = tile, start, stop
        self.sums = np.zeros((patterns, 4))
        self.out = _Collected(sums=self.sums.ctypes.data)
        self._make_room(min(stop - start, max((stop - start) // 24, 2 * STEP)) + STEP)

    def run(self, given: _Pass) -> None:
        """Score the accounts; returns when all are done."""
        assert LIBRARY is not None
        is_double = self.tile.value.dtype == np.float64
        done, given_at, out_at = self.start, ctypes.byref(given), ctypes.byref(self.out)
        while True:
            done = LIBRARY.fused_pass(given_at, out_at, done, self.stop, is_double, INSTRUCTIONS)
            if done == self.stop:
                return
            account, value, planes = self.account, self.value, self.planes
            count = self.out.count
            self._make_room(self.out.capacity * 4)
            self.account[:count] = account[:count]
            self.value[:, :count] = value[:, :count]
            for new, old in zip(self.planes, planes, strict=True):
                if old is not value:
                    new[:, :count] = old[:, :count]

    def _make_room(self, capacity: int) -> None:
        tile = self.tile
        shape, dtype = (tile.value.shape[0], capacity), tile.value.dtype
        self.account: NDArray[np.int64] = np.empty(capacity, dtype=np.int64)
        self.value: Real = np.empty(shape, dtype=dtype)
        self.planes = [self.value if plane is tile.value else np.empty(shape, dtype=dtype) for plane in tile.planes]
        self.out.capacity = capacity
        self.out.account = self.account.ctypes.data
        for index, matrix in enumerate((self.value, *self.planes)):
            self.out.point[index] = matrix.ctypes.data


def score(
    tile: Tile, cost: NetCost, low: NDArray[np.float64], high: NDArray[np.float64], *, levels: bool = True
) -> Scored:
    """Score every account at both ends of its pattern's price interval; see :class:`Scored`. O(J·n), one read.

    Large tiles are shared among as many threads as there are processors, or ``OMP_NUM_THREADS``.
    """
    assert LIBRARY is not None
    if tile.value.dtype == np.float32 and not (_ordinary(low) and _ordinary(high)):
        tile = tile.doubled()
    depth, n = tile.value.shape
    dtype = tile.value.dtype
    level = np.empty(n, dtype=np.int32) if levels else None
    allowed = None if tile.allowed is None else tile.allowed.view(np.uint8)
    low, high = np.ascontiguousarray(low), np.ascontiguousarray(high)
    tables = cost.tables
    small = np.empty(7 * depth + 2 * low.size)
    given = _Pass(
        levels=depth,
        stride=tile.value.strides[0] // dtype.itemsize if depth > 1 else max(n, 1),
        allowed_stride=0 if allowed is None else allowed.strides[0],
        planes=len(tile.planes),
        measured=cost.measured,
        patterns=low.size,
        value=tile.value.ctypes.data,
        low=low.ctypes.data,
        high=high.ctypes.data,
        pattern=None if tile.pattern is None else tile.pattern.ctypes.data,
        allowed=None if allowed is None else allowed.ctypes.data,
        margin=MARGINS[dtype],
        packing=1 << max(depth - 1, 1).bit_length(),
        level=None if level is None else level.ctypes.data,
        small=small.ctypes.data,
    )
    for index, (table, reach) in enumerate(tables):
        given.table[index] = table.ctypes.data
        given.reach[index] = reach
    for index, plane in enumerate(tile.planes):
        given.cost[index] = plane.ctypes.data
    LIBRARY.fused_prepare(ctypes.byref(given), dtype == np.float64)

    if tile.value.size < THREADED:
        piece = _Piece(tile, 0, n, low.size)
        piece.run(given)
        account = piece.account[: piece.out.count]
        return Scored(piece.sums, _joined(tile, [piece], account), account, level, bool(piece.out.suspect))
    pieces = [_Piece(tile, start, min(n, start + PIECE), low.size) for start in range(0, n, PIECE)]
    _share(pieces, given)
    account = np.concatenate([piece.account[: piece.out.count] for piece in pieces])
    sums = np.add.reduce([piece.sums for piece in pieces])
    return Scored(sums, _joined(tile, pieces, account), account, level, any(piece.out.suspect for piece in pieces))


def _share(pieces: list[_Piece], given: _Pass) -> None:
    """Run all pieces, on several threads where there are several."""
    waiting = iter(pieces)
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                piece = next(waiting, None)
            if piece is None:
                return
            piece.run(given)

    helpers = [threading.Thread(target=work, daemon=True) for _ in range(min(THREADS, len(pieces)) - 1)]
    for helper in helpers:
        helper.start()
    try:
        work()
    finally:
        # After Ctrl-C nothing new is begun; what a helper holds ends within milliseconds.
        with lock:
            waiting = iter(())
        for helper in helpers:
            helper.join()


def _joined(tile: Tile, pieces: list[_Piece], account: NDArray[np.int64]) -> Tile:
    """The unsettled accounts of all pieces."""
    counts = [piece.out.count for piece in pieces]

    def side_by_side(matrices: list[Real]) -> Real:
        if len(matrices) == 1:
            return matrices[0][:, : counts[0]]
        return np.concatenate([matrix[:, :count] for matrix, count in zip(matrices, counts, strict=True)], axis=1)

    value = side_by_side([piece.value for piece in pieces])
    planes = tuple(
        value if plane is tile.value else side_by_side([piece.planes[index] for piece in pieces])
        for index, plane in enumerate(tile.planes)
    )
    return Tile(
        value,
        planes,
        None if tile.pattern is None else tile.pattern[account],
        None if tile.allowed is None else np.ascontiguousarray(tile.allowed[:, account]),
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
    if array.flags.c_contiguous:
        array = array.reshape(1, -1)
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
    return all(price == 0.0 or 1e-30 < abs(price) < 1e30 for price in prices.tolist())
