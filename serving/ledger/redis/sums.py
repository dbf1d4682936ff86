"""Totals and traffic of the store in Redis, from the sums that are kept with it."""

from collections.abc import Mapping
from typing import Any, cast

import redis

from serving.ledger.records import CAUSES, Dates
from serving.ledger.redis.rows import find
from serving.ledger.terms import check_terms, noted_terms
from serving.ledger.totals import LedgerTotals
from serving.ledger.traffic import Asked, Traffic, by_hour
from shadowprice.campaign import Campaign, Side
from shadowprice.pacing.decision_log.records import CORRECTION_KINDS

TERMS = "terms"
"""Field of the sums with the sides and levels of the decisions."""
AMOUNTS = (
    *("authorized", "reserved", "closed", "spent", "late", "outcomes", "misdated", *CAUSES),
    *("refunded", "overridden", *CORRECTION_KINDS),
)
"""Sums of each side that are whole numbers."""


def totals(raw: Mapping[bytes, bytes], campaign: Campaign) -> LedgerTotals:
    """Totals of every side of the campaign from the hash of the sums, zero where nothing happened yet."""
    sums = {tuple(name.decode().split("|")): value for name, value in raw.items()}
    sides = campaign.sides
    amount = {name: {side: int(sums.get((name, side), 0)) for side in sides} for name in AMOUNTS}
    return LedgerTotals(
        decisions={
            (cast("Side", name[1]), int(name[2]), name[3]): int(count)
            for name, count in sums.items()
            if name[0] == "decisions"
        },
        authorized=amount["authorized"],
        outstanding={side: amount["reserved"][side] - amount["closed"][side] for side in sides},
        spent=amount["spent"],
        responses={side: float(sums.get(("responses", side), 0.0)) for side in sides},
        outcomes=amount["outcomes"],
        released={(side, cause): amount[cause][side] for side in sides for cause in CAUSES},
        late=amount["late"],
        refunded=amount["refunded"],
        withdrawn={side: float(sums.get(("withdrawn", side), 0.0)) for side in sides},
        overridden=amount["overridden"],
        corrections={(side, kind): amount[kind][side] for side in sides for kind in CORRECTION_KINDS},
        misdated=amount["misdated"],
        given=int(raw.get(b"given", 0)),
        received=int(raw.get(b"received", 0)),
    )


def note_terms(client: redis.Redis, key: str, campaign: Campaign) -> None:
    """Check the campaign's sides and levels against those of the decisions, and note them in the sums ``key``.

    Raises:
        Conflict: the decisions have other sides or levels.
    """
    sums = cast("dict[bytes, bytes]", client.hgetall(key))
    names = [name.decode().split("|") for name in sums]
    decided = {(cast("Side", name[1]), int(name[2])) for name in names if name[0] == "decisions"}
    noted = sums.get(TERMS.encode())
    check_terms(campaign, None if noted is None else noted.decode(), decided)
    client.hset(key, TERMS, noted_terms(campaign))


def read_dates(client: redis.Redis, key: Mapping[str, str]) -> Dates:
    """The date of the last decision that was recorded, and the time of Redis."""
    last: Any = client.lrange(key["decided"], -1, -1)
    seconds, rest = cast("tuple[int, int]", client.time())
    recorded = [decision.decided_at for decision in find(client, key["decision"], last) if decision is not None]
    return Dates(recorded[0] if recorded else None, seconds * 1_000_000 + rest)


def read_traffic(client: redis.Redis, key: Mapping[str, str], since: int, limit: int) -> Traffic:
    """Requests from the quarter of an hour ``since`` on, by hours that begin there; a sample of the newest ``limit``.

    O(quarters + limit), whatever the number of decisions.
    """
    kept: Any = client.hgetall(key["traffic"])
    counts = []
    for name, requests in kept.items():
        side, quarter = name.decode().split("|")
        counts.append((side, int(quarter), int(requests)))
    names: Any = client.lrange(key["decided"], -limit, -1) if limit else []
    sample = [
        Asked(decision.request_id, decision.account_id, decision.side, decision.partner_id, decision.context)
        for decision in find(client, key["decision"], names[::-1])
        if decision is not None and decision.decided_at >= since
    ]
    return Traffic(by_hour(counts, since), sample)
