"""Arguments and results of the kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Real = NDArray[np.floating[Any]]
Levels = NDArray[np.signedinteger[Any]]
Entry = TypeVar("Entry", bound=np.generic)


def level_type(depth: int) -> type[np.signedinteger[Any]]:
    """Return the type of indices of ``levels`` levels, one byte where that suffices: N levels need memory too."""
    return np.int8 if depth <= 127 else np.int32


@dataclass(frozen=True, eq=False)
class NetCost:
    """Net cost of a level in one limit: ``offset_j + Σ_p weight_pj · plane_p,ij``.

    offset    float64 (J,)
    weights   one float64 (J,) for each plane of a tile
    measured  which plane, counted from 1, a mean per response is taken over; 0 when there is none
    """

    offset: NDArray[np.float64]
    weights: tuple[NDArray[np.float64], ...] = ()
    measured: int = 0

    def __reduce__(self) -> tuple[type[NetCost], tuple[object, ...]]:
        """Return the state that another process receives; addresses have no meaning there."""
        return NetCost, (self.offset, self.weights, self.measured)

    @cached_property
    def tables(self) -> list[tuple[NDArray[np.float64], float]]:
        """Offset and weights as contiguous float64 (J,), each with its largest size."""
        tables = [np.ascontiguousarray(table, dtype=np.float64) for table in (self.offset, *self.weights)]
        return [(table, float(np.abs(table).max())) for table in tables]

    @cached_property
    def addresses(self) -> list[int]:
        """Return the addresses of the tables for the compiled kernel."""
        return [table.ctypes.data for table, _ in self.tables]

    def of(self, planes: tuple[Real, ...]) -> Matrix:
        """(J, n): the net cost in float64, rounded as the kernel's sums are; (J, 1) where no plane takes part."""
        cost: Matrix = np.zeros((self.offset.size, 1))
        cost = cost + self.offset[:, None]
        for weight, plane in zip(self.weights, planes, strict=True):
            if weight.any():
                cost = cost + weight[:, None] * plane.astype(np.float64)
        return cost

    def measure(self, planes: tuple[Real, ...]) -> Matrix:
        """(J, n): denominator of a mean per response, in float64; (1, 1) of zero where there is none."""
        return planes[self.measured - 1].astype(np.float64) if self.measured else np.zeros((1, 1))


@dataclass(frozen=True, eq=False)
class Tile:
    """Some accounts, level-major. Inner strides are one element; all matrices share type and outer stride.

    value    (J, n) float32 or float64
    planes   (J, n) matrices that costs are made of; ``value`` itself may be one. ``score`` takes up to two.
    pattern  uint16 (n,), which price interval applies to an account; None: the first
    allowed  bool (J, n) or None
    """

    value: Real
    planes: tuple[Real, ...] = ()
    pattern: NDArray[np.uint16] | None = None
    allowed: NDArray[np.bool_] | None = None

    @property
    def accounts(self) -> int:
        """Number of accounts n."""
        return int(self.value.shape[1])

    def mapped(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Tile:
        """Return the tile after ``change`` of each array, a vector as one row; a shared matrix is changed once."""
        value = change(self.value)
        return Tile(
            value,
            tuple(value if plane is self.value else change(plane) for plane in self.planes),
            None if self.pattern is None else change(self.pattern[None])[0],
            None if self.allowed is None else change(self.allowed),
        )

    def take(self, index: slice | NDArray[np.integer]) -> Tile:
        """The accounts at ``index``; a view for a slice."""
        return self.mapped(lambda array: array[:, index])

    def copied(self, index: NDArray[np.integer]) -> Tile:
        """The accounts at ``index`` as contiguous matrices."""
        return self.mapped(lambda array: np.ascontiguousarray(array[:, index]))

    def doubled(self) -> Tile:
        """Return the tile in float64."""
        return self.mapped(lambda array: array.astype(np.float64, copy=False) if array.dtype == np.float32 else array)


@dataclass(frozen=True, eq=False)
class Scored:
    """Result of a pass over price intervals.

    sums     float64 (patterns, 2 + 2M) over the settled accounts: value, M net costs, M measures, number;
             M is 1 for ``score``
    open     the unsettled accounts
    account  int64 (n_open,), their positions, ascending
    level    int8 or int32 (n,): best level of the settled accounts (arbitrary elsewhere), or None
    suspect  whether an entry of the value is not finite, or one of a plane not finite or negative; may be a
             false alarm, and is never a missed one
    """

    sums: Matrix
    open: Tile
    account: NDArray[np.int64]
    level: Levels | None
    suspect: bool = False


class Edges(NamedTuple):
    """Hull edges of accounts inside a price interval.

    first    int32 (n,), level just above the high price
    base     float64 (n,), what it costs
    slope    float64 (m,), critical price of each edge
    step     float64 (m,), what the edge costs
    account  int64 (m,), whose edge it is; slopes of one account fall
    """

    first: NDArray[np.int32]
    base: NDArray[np.float64]
    slope: NDArray[np.float64]
    step: NDArray[np.float64]
    account: NDArray[np.int64]


class Bounds(NamedTuple):
    """Smallest and largest entry, and whether all are finite."""

    least: float
    most: float
    finite: bool
