"""The sides and levels that a store's decisions were made with."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from shadowprice.campaign import Campaign, Side
from shadowprice.decision import NOTHING
from shadowprice.errors import Conflict


def noted_terms(campaign: Campaign) -> str:
    """Return the sides of a campaign and their incentives as JSON of one form."""
    return orjson.dumps(offered(campaign), option=orjson.OPT_SORT_KEYS).decode()


def offered(campaign: Campaign) -> dict[Side, list[int]]:
    """Return the incentives of each side in minor units, by level."""
    return {side: list(terms.incentives) for side, terms in campaign.sides.items()}


def check_terms(campaign: Campaign, noted: str | None, decided: Iterable[tuple[Side, int]]) -> None:
    """Make sure that recorded decisions have a side and level of the campaign.

    ``noted`` is :func:`noted_terms` of the campaign that made them, None where it was not noted; ``decided`` their
    sides and levels. A store without decisions takes any campaign.

    Raises:
        Conflict: the sides or levels differ; says which.
    """
    levels = offered(campaign)
    known = list(decided)
    if not known:
        return
    before = None if noted is None else orjson.loads(noted)
    unknown = next((each for each in known if not NOTHING <= each[1] < len(levels.get(each[0], ()))), None)
    if before is None and unknown is None:
        return
    if before != levels:
        had = f"decision of {unknown}" if before is None else before
        raise Conflict(
            f"ledger of campaign {campaign.name!r}: its decisions were made with the sides and levels {had}, and the "
            f"campaign file has {levels}; put those back, or give the campaign with other levels a new name"
        )
