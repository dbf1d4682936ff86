"""A ceiling in the message of a script, and the sums of its limits as Redis keeps them."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import redis

from serving.ledger.records import Ceiling, Owners
from serving.ledger.redis.layout import keys
from serving.ledger.redis.rows import find
from serving.ledger.sound import sound_usage
from shadowprice.errors import InvalidRequest
from shadowprice.limits.usage import Left, Usage, reason_of

MOST_DIGITS = 20
"""Digits of a place in a hash of Redis, a number of 64 bits, at most."""


def ceiling_message(ceiling: Ceiling | None) -> dict[str, Any]:
    """Return a ceiling as the scripts read it: without one there is no limit, and nothing else.

    ``others`` of a bound are the campaigns that share it, by their places in :func:`shared_keys`.
    """
    if ceiling is None:
        return {}
    places = {name: place for place, name in enumerate(_sharing(ceiling))}
    bounds = [
        {
            "name": bound.name,
            "reason": reason_of(bound),
            "amount": bound.most_amount,
            "count": bound.most_count,
            "exclusive": bound.exclusive,
            "others": [places[name] for name in bound.campaigns],
        }
        for bound in ceiling.bounds
    ]
    return {"limit": ceiling.limit, "late_reserve": ceiling.late_reserve, "name": ceiling.name, "bounds": bounds}


def shared_keys(ceiling: Ceiling | None) -> list[str]:
    """Return the keys of amounts and counts of every other campaign that shares a limit."""
    return [key for name in _sharing(ceiling) for key in keys(name, names=("limit_amount", "limit_count"))]


def _sharing(ceiling: Ceiling | None) -> list[str]:
    return sorted({name for bound in (() if ceiling is None else ceiling.bounds) for name in bound.campaigns})


def left_of(ceiling: Ceiling | None, answer: Any) -> Left | None:
    """Return what a script left for a row, by its amount and the place of the limit.

    None without a ceiling, and for a row that was not recorded now.
    """
    if ceiling is None or not isinstance(answer, list):
        return None
    amount, place = answer[:2]
    if place < 0:
        return Left(amount, ceiling.name)
    bound = ceiling.bounds[place]
    return Left(amount, bound.name, reason_of(bound))


def read_owners(client: redis.Redis, campaign: str, begin: str, after: str, limit: int) -> Owners:
    """Return sums by the names of their owners, in no order; a sum that changes meanwhile may come twice.

    O(limit) a call, and O(sums of the campaign, of all limits and periods) for all calls together.

    Raises:
        InvalidRequest: ``after`` is not a place in a hash.
    """
    if after and not (after.isascii() and after.isdigit() and len(after) <= MOST_DIGITS):
        raise InvalidRequest("must be what the call before gave as next", field="after")
    counts, amounts, decided, decision = keys(campaign, names=("limit_count", "limit_amount", "decided", "decision"))
    place, rows = cast("tuple[int, dict[bytes, bytes]]", client.hscan(counts, int(after or 0), f"{begin}*", limit))
    names = list(rows)
    held: Any = client.hmget(amounts, [name.decode() for name in names]) if names else []
    usages = {
        name.decode()[len(begin) :]: Usage(int(amount or 0), int(rows[name]))
        for name, amount in zip(names, held, strict=True)
    }
    first: Any = client.lrange(decided, 0, 0)
    dates = [row.decided_at for row in find(client, decision, first) if row is not None]
    return Owners(
        {owner: usage for owner, usage in usages.items() if any(usage)}, str(place or ""), dates[0] if dates else None
    )


def read_usage(client: redis.Redis, key: Mapping[str, str], sums: Sequence[str]) -> dict[str, Usage]:
    """Return sums of one moment; absent ones are zero."""
    with client.pipeline(transaction=True) as pipeline:
        pipeline.hmget(key["limit_amount"], list(sums))
        pipeline.hmget(key["limit_count"], list(sums))
        amounts, counts = pipeline.execute()
    rows = zip(sums, amounts, counts, strict=True)
    return sound_usage({name: Usage(int(amount or 0), int(count or 0)) for name, amount, count in rows})
