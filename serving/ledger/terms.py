"""The sides and levels that a store's decisions were made with."""

from collections.abc import Iterable

import orjson

from shadowprice.campaign import Campaign, Side
from shadowprice.decision import NOTHING
from shadowprice.errors import Conflict


def noted_terms(campaign: Campaign) -> str:
    """Return the sides of a campaign and the costs of their levels as JSON of one form.

    Offers that amounts do not distinguish are named too, and percentages with their least spends.
    """
    sides = campaign.sides.items()
    named = {f"offers of {side}s": terms.offers for side, terms in sides if terms.amounts}
    parts = {f"percentages of {side}s": terms.to_dict()["percent"] for side, terms in sides if any(terms.percent)}
    return orjson.dumps({**offered(campaign), **named, **parts}, option=orjson.OPT_SORT_KEYS).decode()


def offered(campaign: Campaign) -> dict[Side, list[int]]:
    """Return the unit costs of each side, by level."""
    return {side: list(terms.unit_costs) for side, terms in campaign.sides.items()}


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
    before, now = None if noted is None else orjson.loads(noted), orjson.loads(noted_terms(campaign))
    unknown = next((pair for pair in known if not NOTHING <= pair[1] < len(levels.get(pair[0], ()))), None)
    if before is None and unknown is None:
        return
    if before != now:
        had = f"decision of {unknown}" if before is None else before
        raise Conflict(
            f"ledger of campaign {campaign.name!r}: its decisions were made with the sides and levels {had}, and the "
            f"campaign file has {now}; put those back, or give the campaign with other levels a new name"
        )
