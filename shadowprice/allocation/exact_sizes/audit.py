"""Count a plan again from the accounts and the rules, independently of the solver's input."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Audit:
    """Faults of a plan of N accounts and J segments.

    sizes       int64 (J,), accounts in each segment, and missing int64 (J,), demand minus size
    unplaced    positions of accounts without a segment
    ineligible  positions of accounts in a segment that they may not enter
    repeated    positions of accounts that are in the plan already
    """

    sizes: NDArray[np.int64]
    missing: NDArray[np.int64]
    unplaced: NDArray[np.int64]
    ineligible: NDArray[np.int64]
    repeated: NDArray[np.int64]

    @property
    def sound(self) -> bool:
        """Return whether every size is exact, every account placed once, and no account in a forbidden segment."""
        return not (self.missing.any() or self.unplaced.size or self.ineligible.size or self.repeated.size)

    def __str__(self) -> str:
        return (
            f"{int(np.abs(self.missing).sum())} accounts missing or too many, {self.unplaced.size} accounts unplaced, "
            f"{self.ineligible.size} ineligible, {self.repeated.size} repeated"
        )


def audit(
    account_id: Sequence[str] | NDArray[np.str_] | NDArray[np.object_],
    segment: ArrayLike,
    demands: ArrayLike,
    *,
    allowed: ArrayLike,
) -> Audit:
    """Count a plan again.

    Args:
        account_id: N accounts.
        segment: (N,), index of each one's segment, negative without one.
        demands: (J,), accounts that each segment is to have.
        allowed: bool (J, N), segments that each account may enter.

    Raises:
        InvalidInput: arrays that do not agree, or a segment there is not.

    O(N log N).
    """
    placed, wanted = np.asarray(segment, dtype=np.int64), np.asarray(demands, dtype=np.int64)
    names, may = np.asarray(account_id), np.asarray(allowed, dtype=np.bool_)
    if names.shape != placed.shape:
        raise InvalidInput("accounts and segments must be one of each", field="segment")
    if may.shape != (wanted.size, placed.size):
        raise InvalidInput(f"must have shape {(wanted.size, placed.size)}, got {may.shape}", field="allowed")
    InvalidInput.refuse_rows(placed >= wanted.size, f"must be below {wanted.size}", field="segment")
    seated = placed >= 0
    sizes = np.bincount(placed[seated], minlength=wanted.size)
    above = np.zeros(placed.size, dtype=bool)
    above[seated] = ~may[placed[seated], np.flatnonzero(seated)]
    _, first = np.unique(names, return_index=True)
    again = np.ones(names.size, dtype=bool)
    again[first] = False
    return Audit(
        sizes=sizes.astype(np.int64),
        missing=(wanted - sizes).astype(np.int64),
        unplaced=np.flatnonzero(~seated),
        ineligible=np.flatnonzero(above),
        repeated=np.flatnonzero(again),
    )
