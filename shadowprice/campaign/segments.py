"""Segments of a guaranteed delivery, and the accounts that may enter them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign.fields import check_whole
from shadowprice.errors import InvalidInput

ONE_PLACE = "one-place"
"""Name of the ledger's limit that gives an account one place."""
NOTHING_GIVEN = "none"
"""Name of the segment of the accounts that a delivery gives nothing."""


@dataclass(frozen=True, kw_only=True)
class Segment:
    """One offer of a guaranteed delivery, such as a fund (S2); that named ``none`` gives nothing and is worth 0.

    name        of the offer
    demand      how many accounts exactly are to be given it
    risk_level  the least risk tolerance of an account that may be given it; None: open to all
    fee         share of the transaction value that the objective counts, such as the fee of a fund
    """

    name: str
    demand: int
    risk_level: int | None = None
    fee: float = 1.0

    def __post_init__(self) -> None:
        if not self.name or "|" in self.name or self.name == ONE_PLACE:
            raise InvalidInput(f"must not be empty or {ONE_PLACE!r}, nor hold '|'", field="segment.name")
        check_whole(self.demand, 0, "accounts", "segment.demand")
        if not 0 <= self.fee < np.inf:
            raise InvalidInput(f"must be a share that is not negative, got {self.fee}", field="segment.fee")
        if self.gives_nothing and self.risk_level is not None:
            raise InvalidInput("must be empty: every account may be given nothing", field="segment.risk_level")

    @property
    def gives_nothing(self) -> bool:
        """Return whether the segment is the one of value 0."""
        return self.name == NOTHING_GIVEN


def places_left(segments: Sequence[Segment], taken: NDArray[np.int64], accounts: int) -> tuple[Segment, ...]:
    """Return the segments with the places that are left for ``accounts`` without one; (J,) places are ``taken``.

    The segment that gives nothing takes the accounts beyond these places; it is added where there are such accounts.
    """
    left = [
        replace(segment, demand=max(0, segment.demand - int(count)))
        for segment, count in zip(segments, taken, strict=True)
    ]
    giving = [entry for entry in left if not entry.gives_nothing]
    rest = max(0, accounts - sum(entry.demand for entry in giving))
    nothing = [Segment(name=NOTHING_GIVEN, demand=rest)] if rest or len(giving) < len(left) else []
    return (*giving, *nothing)


def risk_levels(segments: Sequence[Segment]) -> NDArray[np.float64]:
    """(J,): least tolerance of each segment, −inf where anybody may have it."""
    return np.array(
        [-np.inf if segment.risk_level is None else segment.risk_level for segment in segments], dtype=np.float64
    )


def fees(segments: Sequence[Segment]) -> NDArray[np.float64]:
    """(J,): share of a transaction's value that counts."""
    return np.array([segment.fee for segment in segments], dtype=np.float64)


def demands(segments: Sequence[Segment]) -> NDArray[np.int64]:
    """(J,): accounts that each segment is to have."""
    return np.array([segment.demand for segment in segments], dtype=np.int64)


def may_enter(segments: Sequence[Segment], tolerance: NDArray[np.float64]) -> NDArray[np.bool_]:
    """bool (J, N): segments that accounts with tolerance (N,) may enter; NaN enters those that are open to all."""
    return np.asarray(risk_levels(segments)[:, None] <= np.nan_to_num(tolerance, nan=-np.finfo(np.float64).max))
