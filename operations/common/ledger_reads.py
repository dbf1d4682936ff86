"""Reads of the ledger by the steps: requests by time, and the use of caps."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from operations.common.ledger_tokens import reading_token
from shadowprice.calls import fetch
from shadowprice.campaign import Campaign, PlaceLimit, place_limits
from shadowprice.errors import Unavailable
from shadowprice.limits import Cap, GroupBudget
from shadowprice.limits.usage import Usage
from shadowprice.pacing.spend import CapUse, hours_counted

SAMPLE_ROWS = 4000
"""Newest requests that a state names, at most; those of the past are known to the solve."""
OWNERS = 10_000
"""Accounts or partners of a cap that one call reads."""
TIMEOUT_SECONDS = 30.0


def read_traffic(ledger_url: str, campaign: str, since: datetime) -> dict[str, Any]:
    """Requests by hour and side from ``since`` on, and the newest of them, as the ledger's ``/v1/traffic`` returns
    them."""
    return _read(ledger_url, "/v1/traffic", {"campaign": campaign, "limit": SAMPLE_ROWS, "since": since.isoformat()})


def read_hard_stop(ledger_url: str, campaign: str) -> bool:
    """Return whether the ledger refuses money beyond the limits."""
    return bool(_read(ledger_url, "/v1/totals", {"campaign": campaign}).get("hard_stop", True))


def read_cap_use(ledger_url: str, campaign: Campaign, now: datetime) -> dict[str, CapUse]:
    """Return name → use of each cap, shared budget and limit of places in its present period, here and elsewhere.

    O(accounts and partners with an incentive in the period), :data:`OWNERS` in a call.

    Raises:
        Unavailable: the ledger does not answer, or a period ended while it was read.
    """
    # Accounts with a place come before the sizes: a place that is taken meanwhile only leaves its account waiting.
    counted = (*campaign.limits.counted_by_owner, *place_limits(campaign))
    return {cap.name: _cap_use(ledger_url, campaign, cap, now) for cap in counted}


def _cap_use(ledger_url: str, campaign: Campaign, cap: GroupBudget | Cap | PlaceLimit, now: datetime) -> CapUse:
    own: dict[str, Usage] = {}
    elsewhere: dict[str, Usage] = {}
    first: list[datetime | None] = []
    periods: set[str] = set()
    for name in dict.fromkeys((campaign.name, *cap.campaigns)):
        use: dict[str, Usage] = {}
        since: datetime | None = None
        for page in _pages(ledger_url, {"campaign": campaign.name, "name": cap.name, "of": name, "limit": OWNERS}):
            periods.add(page["period"])
            since = None if page["first"] is None else datetime.fromisoformat(page["first"]).astimezone(UTC)
            rows = zip(page["owners"], page["amounts"], page["uses"], strict=True)
            use |= {owner: Usage(amount, uses) for owner, amount, uses in rows}
        if name == campaign.name:
            own = use
            continue
        first.append(since)
        for owner, usage in use.items():
            elsewhere[owner] = elsewhere.get(owner, Usage()).plus(*usage)
    if len(periods) > 1:
        raise Unavailable(f"a period of limit {cap.name!r} ended while its use was read; measure again")
    return CapUse.of(own, elsewhere, hours_counted(campaign.limits.calendar.began(cap.period, now), first, now))


def _pages(ledger_url: str, parameters: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    page = _read(ledger_url, "/v1/usage", parameters)
    yield page
    while page["next"]:
        page = _read(ledger_url, "/v1/usage", {**parameters, "after": page["next"]})
        yield page


def _read(ledger_url: str, path: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    url = f"{ledger_url.rstrip('/')}{path}"
    body = fetch(f"{url}?{urlencode(parameters)}", TIMEOUT_SECONDS, token=reading_token())
    try:
        answer: dict[str, Any] = json.loads(body)
    except ValueError as error:
        raise Unavailable(f"{url} answered with what is not JSON") from error
    return answer
