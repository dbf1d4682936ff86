"""Problem and plan of segments of given sizes.

    maximize    Σ_ij x_ij · value_ji
    subject to  Σ_j x_ij = 1  for every account i,    Σ_i x_ij = demand_j  for every segment j,
                x_ij ∈ {0, 1},  x_ij = 0 where not allowed

the guaranteed delivery of S2 (eq. 1): every fund gets exactly its number of customers, and no customer gets a fund
above their risk tolerance. The constraint matrix is totally unimodular, so the linear relaxation has an integral
optimum and its dual prices certify it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.allocation.kernel import Bounds
from shadowprice.allocation.problem.problem import check_allowed, check_values, finite_bounds
from shadowprice.errors import InvalidProblem

NOBODY = -1
"""Segment of an account that has none."""

LARGEST = 1e24
"""Values are smaller, so that float32 scores and prices stay far from overflow."""

MOST = np.iinfo(np.int16).max
"""Segments there can be."""

Status = Literal["optimal", "feasible", "violated", "infeasible"]
Real = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Shortage:
    """Reason why sizes are impossible (Hall's condition): these segments need more accounts than may enter any of them.

    segments  indices
    demanded  sum of their demands
    eligible  number of accounts that may enter at least one of them; smaller
    """

    segments: tuple[int, ...]
    demanded: int
    eligible: int

    def __str__(self) -> str:
        return (
            f"segments {list(self.segments)} ask for {self.demanded} accounts and only {self.eligible} may enter them"
        )

    def named(self, names: Sequence[str]) -> str:
        """Return the sentence that names the segments, of J ``names``, and tells what to do."""
        short = [names[index] for index in self.segments]
        return f"there is no plan: {short}: {self}; lower these demands or widen who may have them"


@dataclass(frozen=True, eq=False)
class Plan:
    """A segment for every account.

    status     ``optimal`` (certified); ``feasible``: sizes and eligibility hold; ``violated``: they do not (the literal
               heuristic); ``infeasible``: no plan exists, see ``shortage``, and no account is placed
    segment    (N,), signed integers, of one byte where that does; ``NOBODY`` where an account has none
    prices     (J,), price of one account in each segment, the cheapest 0, in units of value: every account's segment is
               the best at value − price, up to ties. NaN where the method has none.
    objective  Σ value of the plan
    dual       upper bound on every plan, Σ demand·price + Σ_i max_j (value − price); infinite without prices
    gap        (dual − objective) / |dual|
    sizes      int64 (J,), accounts in each segment
    ineligible number of accounts in a segment they may not enter; 0 but for the literal heuristic
    shortage   the segments that make the sizes impossible, or None
    passes     reads of the whole input; 0 where not counted
    allowed    bool (J, N), the segments that each account may enter; None: all
    """

    status: Status
    segment: NDArray[np.signedinteger[Any]]
    prices: NDArray[np.float64]
    objective: float
    dual: float
    gap: float
    sizes: NDArray[np.int64]
    ineligible: int = 0
    shortage: Shortage | None = None
    passes: int = 0
    allowed: NDArray[np.bool_] | None = None


@dataclass(frozen=True, eq=False)
class SizedProblem:
    """A checked problem.

    value    (J, N) float32 or float64, rows contiguous
    demand   int64 (J,), sum N
    allowed  bool (J, N), rows contiguous, or None
    bounds   least and greatest value
    """

    value: Real
    demand: NDArray[np.int64]
    allowed: NDArray[np.bool_] | None
    bounds: Bounds

    @classmethod
    def of(cls, value: ArrayLike, demands: ArrayLike, allowed: ArrayLike | None) -> SizedProblem:
        """Check the arguments of every method for segment sizes.

        Raises:
            InvalidProblem: a wrong shape or type, values that are not finite or 1e24 and more, negative demands,
                demands whose sum is not the number of accounts, an account that may enter no segment.
        """
        matrix = check_values(value, "segments")
        if matrix.dtype not in (np.float32, np.float64):
            matrix = matrix.astype(np.float32 if matrix.dtype.itemsize < 4 else np.float64)
        if matrix.strides[1] != matrix.dtype.itemsize or matrix.strides[0] % matrix.dtype.itemsize:
            matrix = np.ascontiguousarray(matrix)
        if matrix.shape[0] > MOST:
            raise InvalidProblem(f"may have {MOST} segments at most, got {matrix.shape[0]}", field="value")
        bounds = finite_bounds(matrix, "value")
        if max(-bounds.least, bounds.most) >= LARGEST:
            raise InvalidProblem(f"must be smaller than {LARGEST:g} in size; rescale it", field="value")
        depth, accounts = matrix.shape

        demand = np.asarray(demands)
        if demand.shape != (depth,):
            raise InvalidProblem(f"needs one number per segment ({depth}), got shape {demand.shape}", field="demands")
        if not np.issubdtype(demand.dtype, np.integer):
            raise InvalidProblem(f"must be whole numbers, got {demand.dtype}", field="demands")
        demand = demand.astype(np.int64)
        InvalidProblem.refuse_rows(demand < 0, "must not be negative; segments", field="demands")
        if int(demand.sum()) != accounts:
            raise InvalidProblem(
                f"must sum to the number of accounts, {accounts}, got {int(demand.sum())}; a segment of value 0 can "
                "take those who are to get nothing",
                field="demands",
            )

        mask: NDArray[np.bool_] | None = None
        if allowed is not None:
            mask = check_allowed(allowed, matrix.shape, "every account needs a segment it may enter")
            if mask.strides[1] != 1:
                mask = np.ascontiguousarray(mask)
            if mask.all():
                mask = None
        return cls(matrix, demand, mask, bounds)

    @property
    def shape(self) -> tuple[int, int]:
        """(segments J, accounts N)."""
        return (int(self.value.shape[0]), int(self.value.shape[1]))

    def may_enter(self, segments: NDArray[np.bool_]) -> int:
        """Number of accounts that may enter at least one of ``segments``, bool (J,)."""
        if self.allowed is None:
            return self.shape[1] if segments.any() else 0
        return int(np.count_nonzero(self.allowed[segments].any(axis=0)))

    def shortage(self, segments: NDArray[np.bool_]) -> Shortage | None:
        """The proof that ``segments``, bool (J,), ask for too much, or None when they do not."""
        wanted = segments & (self.demand > 0)
        demanded, eligible = int(self.demand[wanted].sum()), self.may_enter(wanted)
        if demanded <= eligible:
            return None
        return Shortage(tuple(np.flatnonzero(wanted).tolist()), demanded, eligible)

    def impossible(self, shortage: Shortage) -> Plan:
        """The answer where no plan exists."""
        depth, accounts = self.shape
        return Plan(
            status="infeasible",
            segment=np.full(accounts, NOBODY, dtype=np.int32),
            prices=np.full(depth, np.nan),
            objective=np.nan,
            dual=-np.inf,
            gap=np.inf,
            sizes=np.zeros(depth, dtype=np.int64),
            shortage=shortage,
            allowed=self.allowed,
        )

    def plan(self, segment: NDArray[np.integer[Any]]) -> Plan:
        """A plan without prices, from segments (N,) that may break sizes and eligibility."""
        depth, accounts = self.shape
        placed = np.flatnonzero(segment != NOBODY)
        chosen = segment[placed].astype(np.intp)
        sizes = np.bincount(chosen, minlength=depth)
        ineligible = 0 if self.allowed is None else int(np.count_nonzero(~self.allowed[chosen, placed]))
        holds = ineligible == 0 and placed.size == accounts and bool((sizes == self.demand).all())
        return Plan(
            status="feasible" if holds else "violated",
            segment=segment.astype(np.int32),
            prices=np.full(depth, np.nan),
            objective=float(self.value[chosen, placed].astype(np.float64).sum()),
            dual=np.inf,
            gap=np.inf,
            sizes=sizes.astype(np.int64),
            ineligible=ineligible,
            allowed=self.allowed,
        )
