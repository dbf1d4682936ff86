"""Count a plan again from the accounts and the rules, independently of the solver's input."""

from __future__ import annotations

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
    ineligible  positions of accounts in a segment above their risk tolerance
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
    tolerance: ArrayLike,
    risk_level: ArrayLike,
) -> Audit:
    """Count a plan again.

    Args:
        account_id: N accounts.
        segment: (N,), index of each one's segment, negative without one.
        demands: (J,), accounts that each segment is to have.
        tolerance: (N,), risk tolerance; NaN where it is not known: only segments open to all accounts.
        risk_level: (J,), least tolerance of a segment; −inf where it is open to all accounts.

    Raises:
        InvalidInput: arrays that do not agree, or a segment there is not.

    O(N log N).
    """
    placed, wanted = np.asarray(segment, dtype=np.int64), np.asarray(demands, dtype=np.int64)
    bearable, risk = np.asarray(tolerance, dtype=np.float64), np.asarray(risk_level, dtype=np.float64)
    names = np.asarray(account_id)
    if not names.shape == placed.shape == bearable.shape:
        raise InvalidInput("accounts, segments and tolerances must be one of each", field="segment")
    if risk.shape != wanted.shape:
        raise InvalidInput("needs one per segment", field="risk_level")
    InvalidInput.refuse_rows(placed >= wanted.size, f"must be below {wanted.size}", field="segment")
    seated = placed >= 0
    sizes = np.bincount(placed[seated], minlength=wanted.size)
    above = np.zeros(placed.size, dtype=bool)
    above[seated] = ~(risk[placed[seated]] <= np.nan_to_num(bearable[seated], nan=-np.finfo(np.float64).max))
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
