"""Further limits as an argument of the scripts, and their sums as Redis keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import redis

from serving.ledger.records import Ceiling
from serving.ledger.redis.layout import keys
from shadowprice.limits.usage import Left, Usage, reason_of


def bounds(ceiling: Ceiling | None) -> str:
    """Return the bounds of a ceiling as ``common.lua`` reads them.

    A line each: name, reason, amount, count, whether it is exclusive, and the campaigns that share it, by their places
    in :func:`shared_keys`.
    """
    places = {name: str(place) for place, name in enumerate(_sharing(ceiling))}
    lines = []
    for each in () if ceiling is None else ceiling.bounds:
        most = ("" if value is None else str(value) for value in (each.most_amount, each.most_count))
        others = " ".join(places[name] for name in each.campaigns)
        lines.append(",".join((each.name, reason_of(each), *most, str(int(each.exclusive)), others)))
    return "\n".join(lines)


def shared_keys(ceiling: Ceiling | None) -> list[str]:
    """Return the keys of amounts and counts of every other campaign that shares a limit."""
    return [key for name in _sharing(ceiling) for key in keys(name, names=("limit_amount", "limit_count"))]


def _sharing(ceiling: Ceiling | None) -> list[str]:
    return sorted({name for each in (() if ceiling is None else ceiling.bounds) for name in each.campaigns})


def left_of(ceiling: Ceiling | None, answer: Any) -> Left | None:
    """Return what a script left for a row, by its amount and the place of the limit.

    None without a ceiling, and for a row that was not recorded now.
    """
    if ceiling is None or not isinstance(answer, list):
        return None
    amount, place = answer
    if place < 0:
        return Left(amount, ceiling.name)
    bound = ceiling.bounds[place]
    return Left(amount, bound.name, reason_of(bound))


def read_usage(client: redis.Redis, key: Mapping[str, str], sums: Sequence[str]) -> dict[str, Usage]:
    """Return sums of one moment; absent ones are zero."""
    with client.pipeline(transaction=True) as pipeline:
        pipeline.hmget(key["limit_amount"], list(sums))
        pipeline.hmget(key["limit_count"], list(sums))
        amounts, counts = pipeline.execute()
    rows = zip(sums, amounts, counts, strict=True)
    return {name: Usage(int(amount or 0), int(count or 0)) for name, amount, count in rows}
