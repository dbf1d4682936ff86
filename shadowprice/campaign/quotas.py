"""Places of a delivery as limits of the ledger: so many of each segment, and one of each account."""

from typing import Literal, NamedTuple

from shadowprice.campaign.campaign import Campaign
from shadowprice.campaign.segments import ONE_PLACE, Segment
from shadowprice.campaign.terms import Terms
from shadowprice.limits.sums import Bound


def sum_of(segment: Segment) -> str:
    """Return the sum of the places of a segment, as :meth:`Limits.sums` names sums."""
    return f"{segment.name}||"


def place_sums(terms: Terms, level: int, account_id: str) -> tuple[str, ...]:
    """Return the sums that a decision adds to; none where it takes no place."""
    if not 0 <= level < len(terms.segments) or terms.segments[level].gives_nothing:
        return ()
    return sum_of(terms.segments[level]), f"{ONE_PLACE}||{account_id}"


class PlaceLimit(NamedTuple):
    """The most places of a segment, or of each account. One that is taken stays taken for the whole campaign."""

    name: str
    size: int
    period: Literal["campaign"] = "campaign"
    campaigns: tuple[str, ...] = ()


def place_limits(campaign: Campaign) -> tuple[PlaceLimit, ...]:
    """Return the limits that these sums are of, that of each account first; none of a campaign without segments."""
    of_segments = [PlaceLimit(entry.name, entry.demand) for entry in campaign.segments if not entry.gives_nothing]
    return (PlaceLimit(ONE_PLACE, 1), *of_segments) if of_segments else ()


def place_bounds(campaign: Campaign) -> tuple[Bound, ...]:
    """Return the most that each of these sums may count; empty of a campaign without segments."""
    limits = place_limits(campaign)
    return tuple(Bound(name, "cap" if name == ONE_PLACE else "budget", None, size) for name, size, *_ in limits)
