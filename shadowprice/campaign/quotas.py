"""Places of a delivery as limits of the ledger: so many of each segment, and one of each account."""

from __future__ import annotations

from shadowprice.campaign.campaign import Campaign
from shadowprice.campaign.segments import ONE_PLACE, Segment
from shadowprice.campaign.terms import Terms
from shadowprice.limits.limits import Bound


def sum_of(segment: Segment) -> str:
    """Return the sum of the places of a segment, as :meth:`Limits.sums` names sums."""
    return f"{segment.name}||"


def place_sums(terms: Terms, level: int, account_id: str) -> tuple[str, ...]:
    """Return the sums that a decision adds to; none where it takes no place."""
    if not 0 <= level < len(terms.segments) or terms.segments[level].gives_nothing:
        return ()
    return sum_of(terms.segments[level]), f"{ONE_PLACE}||{account_id}"


def place_bounds(campaign: Campaign) -> tuple[Bound, ...]:
    """Return the most that each of these sums may count; empty of a campaign without segments."""
    segments = [segment for segment in campaign.segments if not segment.gives_nothing]
    own = [Bound(ONE_PLACE, "cap", None, 1)] if segments else []
    return (*(Bound(segment.name, "budget", None, segment.demand) for segment in segments), *own)
