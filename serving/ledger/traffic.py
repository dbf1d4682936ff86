"""Recent requests, from which the next solve estimates the traffic to come."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from serving.ledger.clock import time_of

HOUR = 3_600_000_000
QUARTER = 900_000_000
"""Microseconds of a quarter of an hour, for which requests are counted; a quarter is numbered from 1970 (UTC)."""


@dataclass(frozen=True)
class Hour:
    """Requests of one side decided in the hour from ``hour`` (UTC) on, a whole number of hours after ``since``."""

    hour: datetime
    side: str
    requests: int


@dataclass(frozen=True)
class Asked:
    """One request; ``partner_id`` is empty where it has none, and so is ``context``, a JSON object of its values."""

    request_id: str
    account_id: str
    side: str
    partner_id: str = ""
    context: str = ""


@dataclass(frozen=True)
class Traffic:
    """Counts by hour, oldest first, and a sample of the latest requests, newest first."""

    hours: list[Hour]
    sample: list[Asked]


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
