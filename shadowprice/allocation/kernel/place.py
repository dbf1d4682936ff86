"""One pass over accounts with a bracket of prices: it settles those with the same segment everywhere in it.

:func:`place_plain` is the readable reference; ``place.c`` does the same in the matrix's own precision.
"""

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.kernel.arguments import Matrix, Real
from shadowprice.allocation.kernel.compiled import LIBRARY, Pointer, Whole, members

UNBOUNDED = 1e30
"""Stands for a price without bound; values are to stay far below it."""

SHARES = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-14}
"""Lead that settles, as a share of the terms of a score: a few units in the last place of either type."""

WIDTH = 256
"""Free places the kernel wants before it goes on; the constant of the same name in place.c."""

CHUNK = 1 << 15


@dataclass(frozen=True, eq=False)
class Placed:
    """Result of a pass.

    worth    value of the settled accounts
    sizes    int64 (J,), how many of them each segment has
    open     (J, n_open), values of the others; minus infinity where ineligible
    account  int64 (n_open,), their positions, ascending
    level    int8 or int16 (n,), segment of the settled accounts; arbitrary elsewhere
    """

    worth: float
    sizes: NDArray[np.int64]
    open: Real
    account: NDArray[np.int64]
    level: NDArray[np.signedinteger[Any]]


class _Bracket(ctypes.Structure):
    _fields_ = (
        *members(Whole, "levels stride allowed_stride"),
        *members(Pointer, "value low high allowed"),
        *members(ctypes.c_double, "share reach"),
        *members(Pointer, "narrow wide"),
    )


class _Unsettled(ctypes.Structure):
    _fields_ = (*members(Pointer, "worth sizes account value"), *members(Whole, "capacity count"))


def _reach(low: Matrix, high: Matrix) -> float:
    ends = np.abs(np.concatenate([low, high]))
    return float(ends[ends < UNBOUNDED].max(initial=0.0))


def narrowest(depth: int) -> type[np.int8] | type[np.int16]:
    """Type of segment numbers: one byte an account where it is enough."""
    return np.int8 if depth <= np.iinfo(np.int8).max else np.int16


def place_plain(
    value: Real, allowed: NDArray[np.bool_] | None, low: Matrix, high: Matrix, share: float = 0.0
) -> Placed:
    """Settle accounts over the bracket of prices [low, high], each (J,); O(J·n).

    ``share`` of the accounts is expected to stay unsettled; a better guess saves the kernel memory and copies.
    """
    del share
    depth, n = value.shape
    sizes, worth = np.zeros(depth, dtype=np.int64), 0.0
    level = np.empty(n, dtype=narrowest(depth))
    unsettled: list[NDArray[np.int64]] = []
    margin, reach = SHARES[value.dtype], _reach(low, high)
    for start in range(0, n, CHUNK):
        part = slice(start, min(n, start + CHUNK))
        values = _masked(value[:, part], None if allowed is None else allowed[:, part]).astype(np.float64)
        columns = np.arange(values.shape[1])
        dear = values - high[:, None]
        who = dear.argmax(axis=0)
        rival = values - low[:, None]
        rival[who, columns] = -np.inf
        lead = margin * (np.abs(values[who, columns]) + reach)
        settled = dear[who, columns] > rival.max(axis=0) + lead
        level[part] = who
        sizes += np.bincount(who[settled], minlength=depth)
        worth += float(values[who, columns][settled].sum())
        unsettled.append(start + np.flatnonzero(~settled))
    account = np.concatenate(unsettled).astype(np.int64)
    left = _masked(value[:, account], None if allowed is None else allowed[:, account])
    return Placed(worth, sizes, left, account, level)


def _masked(value: Real, allowed: NDArray[np.bool_] | None) -> Real:
    return np.ascontiguousarray(value) if allowed is None else np.where(allowed, value, value.dtype.type(-np.inf))


def place_compiled(
    value: Real, allowed: NDArray[np.bool_] | None, low: Matrix, high: Matrix, share: float = 0.0
) -> Placed:
    """Compiled version: one read of ``value``, whose inner stride is one element."""
    assert LIBRARY is not None
    depth, n = value.shape
    dtype = value.dtype
    lows, highs = low.astype(dtype), high.astype(dtype)
    # A bracket that rounding made smaller could settle an account wrongly.
    lows = np.where(lows > low, np.nextafter(lows, dtype.type(-np.inf)), lows)
    highs = np.where(highs < high, np.nextafter(highs, dtype.type(np.inf)), highs)
    level = np.empty(n, dtype=narrowest(depth))
    sizes, worth = np.zeros(depth, dtype=np.int64), np.zeros(1)
    bracket = _Bracket(
        levels=depth,
        stride=value.strides[0] // dtype.itemsize if depth > 1 else max(n, 1),
        allowed_stride=0 if allowed is None else allowed.strides[0],
        value=value.ctypes.data,
        low=lows.ctypes.data,
        high=highs.ctypes.data,
        allowed=None if allowed is None else allowed.ctypes.data,
        share=SHARES[dtype],
        reach=_reach(low, high),
        narrow=level.ctypes.data if level.dtype == np.int8 else None,
        wide=level.ctypes.data if level.dtype == np.int16 else None,
    )
    run = LIBRARY.place_f32 if dtype == np.float32 else LIBRARY.place_f64
    capacity = min(n, int(1.1 * share * n) + 1024) + WIDTH
    done = count = 0
    account, left = np.empty(capacity, dtype=np.int64), np.empty((depth, capacity), dtype=dtype)
    while True:
        out = _Unsettled(
            worth=worth.ctypes.data,
            sizes=sizes.ctypes.data,
            account=account.ctypes.data,
            value=left.ctypes.data,
            capacity=capacity,
            count=count,
        )
        done = run(ctypes.byref(bracket), ctypes.byref(out), ctypes.c_int64(done), ctypes.c_int64(n))
        count = out.count
        if done == n:
            break
        # What was left open so far tells how much the rest will need.
        capacity = min(n, max(2 * capacity, int(1.1 * count * n / max(done, 1)))) + WIDTH
        more, wider = np.empty(capacity, dtype=np.int64), np.empty((depth, capacity), dtype=dtype)
        more[:count], wider[:, :count] = account[:count], left[:, :count]
        account, left = more, wider
    return Placed(float(worth[0]), sizes, left[:, :count], account[:count], level)


# A library built from older sources lacks the function.
if LIBRARY is not None and hasattr(LIBRARY, "place_f32"):
    for _run in (LIBRARY.place_f32, LIBRARY.place_f64):
        _run.restype = ctypes.c_int64
else:
    place_compiled = place_plain
