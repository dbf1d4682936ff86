"""Exact segment sizes for a few accounts by successive shortest paths.

:func:`exact_sizes_plain` is the readable reference; ``paths.c`` reads shortlists in place of all accounts.
"""

import ctypes
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.kernel.arguments import Matrix
from shadowprice.allocation.kernel.compiled import LIBRARY


@dataclass(frozen=True, eq=False)
class Sized:
    """A best plan with given sizes, or the proof that there is none.

    segment  int32 (n,)
    prices   (J,), node potentials: every account's segment is among its best at ``value − price``
    least    (J, J), what an account of one segment loses at least by moving to the other; infinite where none can.
             ``prices`` and all other π with π_a − π_b ≤ least_ab for all a, b support the plan.
    reached  bool (J,): segments that the surplus accounts can enter, where the sizes are impossible;
             None otherwise
    """

    segment: NDArray[np.int32]
    prices: Matrix
    least: Matrix
    reached: NDArray[np.bool_] | None


def exact_sizes_plain(value: Matrix, demand: NDArray[np.int64], prices: Matrix) -> Sized:
    """Best plan with ``demand`` accounts (J,) in each segment, from (n, J) values and starting prices (J,).

    Values are minus infinity where ineligible; demands sum to n. O(moves·n·J).
    """
    n, depth = value.shape
    prices = prices.astype(np.float64)
    segment = (value - prices).argmax(axis=1) if n else np.zeros(0, dtype=np.intp)
    least = np.array([_losses(value, segment, a)[0] for a in range(depth)])
    who = np.array([_losses(value, segment, a)[1] for a in range(depth)])
    while True:
        excess = np.bincount(segment, minlength=depth) - demand
        if not (excess > 0).any():
            return Sized(segment.astype(np.int32), prices, least, None)
        distance = np.where(excess > 0, 0.0, np.inf)
        before = np.full(depth, -1)
        reached = np.zeros(depth, dtype=bool)
        end = -1
        while end < 0:
            waiting = np.where(reached, np.inf, distance)
            a = int(waiting.argmin())
            if not np.isfinite(waiting[a]):
                return Sized(segment.astype(np.int32), prices, least, reached)
            reached[a] = True
            if excess[a] < 0:
                end = a
                break
            through = distance[a] + np.maximum(least[a] - (prices[a] - prices), 0.0)
            nearer = ~reached & (through < distance)
            distance[nearer], before[nearer] = through[nearer], a
        prices = prices - np.minimum(distance, distance[end])
        path = [end]
        while before[path[-1]] >= 0:
            path.append(int(before[path[-1]]))
        moves = [(who[a, b], b) for b, a in pairwise(path)]
        for account, to in moves:
            segment[account] = to
        for a in path:
            least[a], who[a] = _losses(value, segment, a)


def _losses(value: Matrix, segment: NDArray[np.intp], a: int) -> tuple[Matrix, NDArray[np.intp]]:
    """Return (J,), the least loss from segment a to each other segment, and the account of each loss."""
    depth = value.shape[1]
    members = np.flatnonzero(segment == a)
    if not members.size:
        return np.full(depth, np.inf), np.full(depth, -1)
    loss = value[members, a : a + 1] - value[members]
    loss[:, a] = np.inf
    first = loss.argmin(axis=0)
    return loss[first, np.arange(depth)], members[first]


def exact_sizes_compiled(value: Matrix, demand: NDArray[np.int64], prices: Matrix) -> Sized:
    """Compiled version of the search; O(moves·(J² + n/listed))."""
    assert LIBRARY is not None
    n, depth = value.shape
    value = np.ascontiguousarray(value, dtype=np.float64)
    demand = np.ascontiguousarray(demand, dtype=np.int64)
    prices = np.array(prices, dtype=np.float64)
    segment, least = np.empty(n, dtype=np.int32), np.empty((depth, depth))
    reached = np.zeros(depth, dtype=np.bool_)
    moves = LIBRARY.exact_sizes(
        ctypes.c_int64(depth),
        ctypes.c_int64(n),
        *[ctypes.c_void_p(array.ctypes.data) for array in (value, demand, prices, segment, least, reached)],
    )
    if moves == -2:
        raise MemoryError(f"shortest paths over {n} accounts and {depth} segments")
    return Sized(segment, prices, least, reached if moves == -1 else None)


# A library built from older sources lacks the function.
if LIBRARY is not None and hasattr(LIBRARY, "exact_sizes"):
    LIBRARY.exact_sizes.restype = ctypes.c_int64
else:
    exact_sizes_compiled = exact_sizes_plain
