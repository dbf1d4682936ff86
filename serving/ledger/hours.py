"""Requests by hour, from the counts by quarter of an hour that both stores keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from serving.ledger.store import time_of
from serving.ledger.traffic import HOUR, QUARTER, Hour


def by_hour(counts: Iterable[tuple[str, int, int]], since: int) -> list[Hour]:
    """Sums of requests of the hours from ``since`` on, which is the start of a quarter; hours without any are left out.

    counts  side, number of a quarter, requests decided in it
    """
    hours: Counter[tuple[int, str]] = Counter()
    for side, quarter, requests in counts:
        hours[(quarter * QUARTER - since) // HOUR, side] += requests
    return [
        Hour(time_of(since + hour * HOUR), side, count) for (hour, side), count in sorted(hours.items()) if hour >= 0
    ]
