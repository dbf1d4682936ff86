"""Who asked recently: for the next solve, which prices the traffic to come."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import datetime

from serving.ledger.database import microseconds, time_of

HOUR = 3_600_000_000
MAX_SAMPLE = 10_000


@dataclass(frozen=True)
class Hour:
    """Requests of one side decided in the hour that begins at ``hour`` (UTC)."""

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


def read_traffic(database: sqlite3.Connection, since: datetime | None, limit: int) -> Traffic:
    """Requests decided at or after ``since``; the newest ``limit`` of them one by one."""
    start = 0 if since is None else microseconds(since)
    hours = database.execute(
        "SELECT decided_at / ?1, side, COUNT(*) FROM decision WHERE decided_at >= ?2 GROUP BY 1, 2 ORDER BY 1, 2",
        (HOUR, start),
    ).fetchall()
    sample = database.execute(
        "SELECT request_id, account_id, side FROM decision WHERE decided_at >= ? ORDER BY sequence DESC LIMIT ?",
        (start, limit),
    ).fetchall()
    return Traffic(
        [Hour(time_of(hour * HOUR), side, count) for hour, side, count in hours],
        [Asked(*row) for row in sample],
    )
