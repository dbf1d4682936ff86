"""The kernel in C, called through ctypes; ``LIBRARY`` is None where it was not built."""

import ctypes
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.kernel import plain
from shadowprice.allocation.kernel.arguments import Bounds, Edges, Entry, NetCost, Real, Scored, Tile, level_type

VERSION = 3
"""Version of the structures and functions below; fused.c has it in the name of a function."""

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
Whole = ctypes.c_int64

PIECE = 1 << 18
"""Accounts that one thread takes at a time. Sums are added up piece by piece: threads do not change them."""

THREADED = 1 << 22
"""Entries of a matrix from which a second thread is worth its start."""

LARGEST = 1 << 21
"""Entries of a buffer that is kept for the next pass: 8 or 16 MB for each thread."""

_GUARD = threading.Lock()


def members(kind: type[Any], names: str) -> list[tuple[str, type[Any]]]:
    """Return the fields of one type of a C structure."""
    return [(name, kind) for name in names.split()]


class _Pass(ctypes.Structure):
    _fields_ = (
        *members(Whole, "levels stride allowed_stride planes measured patterns"),
        ("value", Pointer),
        ("cost", Pointer * 2),
        ("table", Pointer * 3),
        *members(Pointer, "low high pattern allowed"),
        ("reach", ctypes.c_double * 3),
        ("margin", ctypes.c_double),
        ("packing", Whole),
        *members(Pointer, "level narrow small"),
    )


class _Collected(ctypes.Structure):
    _fields_ = (
        *members(Pointer, "sums account"),
        ("point", Pointer * 3),
        *members(Whole, "capacity count suspect"),
    )


class _Points(ctypes.Structure):
    _fields_ = (
        *members(Whole, "levels accounts stride allowed_stride"),
        ("value", Pointer),
        ("cost", Pointer * 2),
        ("offset", Pointer),
        ("weight", Pointer * 2),
        *members(Pointer, "member pattern allowed"),
    )


class _Climbed(ctypes.Structure):
    _fields_ = tuple(members(Pointer, "first base slope step account"))


def _open() -> ctypes.CDLL | None:
    """The extension; None where it was not built, or for another machine, or from other sources, with a warning."""
    paths = (Path(__file__).with_name(f"_fused{suffix}") for suffix in EXTENSION_SUFFIXES)
    path = next((candidate for candidate in paths if candidate.exists()), None)
    if path is None:
        return None
    try:
        library = ctypes.CDLL(str(path))
    except OSError:  # built for another machine
        return None
    if hasattr(library, f"fused_version_{VERSION}"):
        return library
    fault = (
        f"{path.name} was built from other sources and is not used; build it again: python setup.py build_ext --inplace"
    )
    warnings.warn(fault, RuntimeWarning, stacklevel=2)
    return None


def _load() -> ctypes.CDLL | None:
    library = _open()
    if library is not None:
        number = ctypes.c_double
        climb, scan = [Pointer, number, number, Pointer], [Pointer, Whole, Pointer]
        for name, types, returned in (
            ("fused_pass", [Pointer, Pointer, Whole, Whole, ctypes.c_int, ctypes.c_int], Whole),
            ("fused_prepare", [Pointer, ctypes.c_int], None),
            ("climb_f32", climb, Whole),
            ("climb_f64", climb, Whole),
            ("select_edge", [Whole, Pointer, Pointer, number, number], number),
            ("gather_blocks", [Whole, Whole, Whole, Pointer, Pointer, Whole, Whole, Pointer], None),
            ("scan_f32", scan, Whole),
            ("scan_f64", scan, Whole),
        ):
            function = getattr(library, name)
            function.argtypes, function.restype = types, returned
    return library


LIBRARY = _load()
INSTRUCTIONS = LIBRARY.fused_best_instructions() if LIBRARY is not None else 0
"""0 plain C, 1 AVX2, 2 AVX-512."""


class _Buffer:
    """Buffer of a thread for the unsettled accounts of its pieces.

    It is kept from pass to pass, because fresh memory must be cleared.
    """

    def __init__(self, depth: int, planes: int, dtype: np.dtype[Any], capacity: int) -> None:
        self.form = (depth, planes, dtype)
        self.used = 0
        self._make(capacity)

    def _make(self, capacity: int) -> None:
        depth, planes, dtype = self.form
        self.capacity = capacity
        self.account: NDArray[np.int64] = np.empty(capacity, dtype=np.int64)
        self.matrices: list[Real] = [np.empty((depth, capacity), dtype=dtype) for _ in range(planes)]
        self.addresses = [array.ctypes.data for array in (self.account, *self.matrices)]

    def grow(self, kept: int) -> None:
        """Four times the capacity, with what is in the first places."""
        account, matrices = self.account, self.matrices
        self._make(4 * self.capacity)
        self.account[:kept] = account[:kept]
        for new, old in zip(self.matrices, matrices, strict=True):
            new[:, :kept] = old[:, :kept]


_ROOMS: list[_Buffer] = []
"""Buffers that no thread uses, the longest unused first."""


@contextmanager
def _buffers(tile: Tile, accounts: int) -> Iterator[Callable[[], _Buffer]]:
    """Hands out buffers for pieces of so many accounts and takes them back."""
    form = (tile.value.shape[0], 1 + max(_kinds(tile), default=0), tile.value.dtype)
    taken: list[_Buffer] = []

    def hire() -> _Buffer:
        with _GUARD:
            at = next((k for k, buffer in enumerate(_ROOMS) if buffer.form == form), None)
            buffer = None if at is None else _ROOMS.pop(at)
            if buffer is None:
                buffer = _Buffer(*form, min(accounts, max(accounts // 24, 2 * STEP)) + STEP)
            buffer.used = 0
            taken.append(buffer)
            return buffer

    try:
        yield hire
    finally:
        with _GUARD:
            _ROOMS.extend(buffer for buffer in taken if buffer.capacity * buffer.form[0] * buffer.form[1] <= LARGEST)
            del _ROOMS[: -4 * THREADS]


class _Piece:
    """Accounts [start, stop) on their way through the pass; the unsettled are at ``slots`` of ``buffer``."""

    def __init__(self, tile: Tile, start: int, stop: int, patterns: int) -> None:
        self.tile, self.start, self.stop = tile, start, stop
        self.sums = np.zeros((patterns, 4))
        self.suspect = False
        self.buffer: _Buffer | None = None
        self.slots = slice(0, 0)

    def run(self, given: _Pass, buffer: _Buffer) -> None:
        """Score the accounts; the buffer grows where the unsettled need it."""
        assert LIBRARY is not None
        is_double = self.tile.value.dtype == np.float64
        out = _Collected(sums=self.sums.ctypes.data, count=buffer.used)
        done, given_at, out_at = self.start, ctypes.byref(given), ctypes.byref(out)
        while True:
            out.capacity, out.account = buffer.capacity, buffer.addresses[0]
            for index, kind in enumerate((0, *_kinds(self.tile))):
                out.point[index] = buffer.addresses[1 + kind]
            done = LIBRARY.fused_pass(given_at, out_at, done, self.stop, is_double, INSTRUCTIONS)
            if done == self.stop:
                break
            buffer.grow(out.count)
        self.buffer, self.slots = buffer, slice(buffer.used, out.count)
        buffer.used = out.count
        self.suspect = bool(out.suspect)

    @property
    def account(self) -> NDArray[np.int64]:
        """Positions of the unsettled."""
        assert self.buffer is not None
        return self.buffer.account[self.slots]

    def points(self, kind: int) -> Real:
        """(J, n): one of the unsettled accounts' distinct matrices."""
        assert self.buffer is not None
        return self.buffer.matrices[kind][:, self.slots]


def _kinds(tile: Tile) -> list[int]:
    """Index of each plane among the distinct matrices; 0 is the value."""
    kinds: list[int] = []
    for plane in tile.planes:
        kinds.append(0 if plane is tile.value else max(kinds, default=0) + 1)
    return kinds


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
    level = np.empty(n, dtype=level_type(depth)) if levels else None
    allowed = None if tile.allowed is None else tile.allowed.view(np.uint8)
    low, high = np.ascontiguousarray(low), np.ascontiguousarray(high)
    small = np.empty(7 * depth + 2 * low.size)
    arguments = _Pass(
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
        level=None if level is None or level.itemsize == 1 else level.ctypes.data,
        narrow=None if level is None or level.itemsize > 1 else level.ctypes.data,
        small=small.ctypes.data,
    )
    for index, (address, (_, reach)) in enumerate(zip(cost.addresses, cost.tables, strict=True)):
        arguments.table[index] = address
        arguments.reach[index] = reach
    for index, plane in enumerate(tile.planes):
        arguments.cost[index] = plane.ctypes.data
    LIBRARY.fused_prepare(ctypes.byref(arguments), dtype == np.float64)

    threaded = tile.value.size >= THREADED
    size = PIECE if threaded else max(n, 1)
    pieces = [_Piece(tile, start, min(n, start + size), low.size) for start in range(0, max(n, 1), size)]
    with _buffers(tile, size) as hire:
        if threaded:
            _share(pieces, arguments, hire)
        else:
            pieces[0].run(arguments, hire())
        account = np.concatenate([piece.account for piece in pieces])
        open_ = _joined(tile, pieces, account)
    sums = np.add.reduce([piece.sums for piece in pieces])
    return Scored(sums, open_, account, level, any(piece.suspect for piece in pieces))


def _share(pieces: list[_Piece], given: _Pass, hire: Callable[[], _Buffer]) -> None:
    """Run all pieces, on several threads where there are several."""
    waiting = iter(pieces)
    lock = threading.Lock()

    def work() -> None:
        buffer = hire()
        while True:
            with lock:
                piece = next(waiting, None)
            if piece is None:
                return
            piece.run(given, buffer)

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
    """Copies of the unsettled accounts of all pieces."""
    kinds = _kinds(tile)
    matrices = [
        np.concatenate([piece.points(kind) for piece in pieces], axis=1) for kind in range(1 + max(kinds, default=0))
    ]
    return Tile(
        matrices[0],
        tuple(matrices[kind] for kind in kinds),
        None if tile.pattern is None else tile.pattern[account],
        None if tile.allowed is None else np.ascontiguousarray(tile.allowed[:, account]),
    )


def climb(tile: Tile, cost: NetCost, member: NDArray[np.float64], low: float, high: float) -> Edges:
    """Hull edges with slopes in [low, high] and the level above them; see :class:`Edges`. O(J·(edges + n))."""
    assert LIBRARY is not None
    depth, n = tile.value.shape
    if depth > DEEPEST:
        return plain.climb(tile, cost, member, low, high)
    size = tile.value.itemsize
    allowed = None if tile.allowed is None else tile.allowed.view(np.uint8)
    points = _Points(
        levels=depth,
        accounts=n,
        stride=tile.value.strides[0] // size if depth > 1 else max(n, 1),
        allowed_stride=0 if allowed is None else allowed.strides[0],
        value=tile.value.ctypes.data,
        offset=cost.addresses[0],
        member=member.ctypes.data,
        pattern=None if tile.pattern is None else tile.pattern.ctypes.data,
        allowed=None if allowed is None else allowed.ctypes.data,
    )
    for index, plane in enumerate(tile.planes):
        points.cost[index] = plane.ctypes.data
        points.weight[index] = cost.addresses[index + 1]
    most = max(1, n * (depth - 1))
    first, account, numbers = np.empty(n, dtype=np.int32), np.empty(most, dtype=np.int64), np.empty(n + 2 * most)
    at = numbers.ctypes.data
    climbed = _Climbed(
        first=first.ctypes.data, base=at, slope=at + 8 * n, step=at + 8 * (n + most), account=account.ctypes.data
    )
    climber = LIBRARY.climb_f32 if tile.value.dtype == np.float32 else LIBRARY.climb_f64
    count = climber(ctypes.byref(points), low, high, ctypes.byref(climbed))
    slope, step = numbers[n : n + count], numbers[n + most : n + most + count]
    return Edges(first, numbers[:n], slope, step, account[:count])


def select(slope: NDArray[np.float64], step: NDArray[np.float64], budget: float, none: float) -> float:
    """Return the slope of the first edge, by falling slope, at which the steps exceed ``budget`` in sum. About O(m)."""
    assert LIBRARY is not None
    price: float = LIBRARY.select_edge(slope.size, slope.ctypes.data, step.ctypes.data, budget, none)
    if price == -1.0:
        raise MemoryError(f"selection among {slope.size} edges")
    return price


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
    """(J, blocks·width): the blocks of ``width`` neighboring columns that begin at ``starts``."""
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
    """Return whether float32 holds the prices with all their digits, and products of them without overflow."""
    size = np.abs(prices)
    return bool(((prices == 0.0) | ((size > 1e-30) & (size < 1e30))).all())
