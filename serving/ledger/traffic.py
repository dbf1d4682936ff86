"""Who asked recently: for the next solve, which prices the traffic to come."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

HOUR = 3_600_000_000
QUARTER = 900_000_000
"""Microseconds of a quarter of an hour, for which requests are counted; a quarter is numbered from 1970 (UTC)."""
MAX_SAMPLE = 10_000


@dataclass(frozen=True)
class Hour:
    """Requests of one side decided in the hour from ``hour`` (UTC) on, a whole number of hours after ``since``."""

    hour: datetime
    side: str
    requests: int


@dataclass(frozen=True)
class Asked:
    """One request."""

    request_id: str
    account_id: str
    side: str


@dataclass(frozen=True)
class Traffic:
    """Counts by hour, oldest first, and a sample of the latest requests, newest first."""

    hours: list[Hour]
    sample: list[Asked]
