"""Finding of one check on one group of requests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """Result of one check.

    check      name of the check, a key of :data:`shadowprice.watch.registry.CHECKS`
    side       side of the market
    level      index of the incentive level; -1: all levels together
    statistic  compared with ``limit``: an alarm is a statistic at the limit or above
    limit      of the statistic
    alarm      verdict
    rows       requests that were judged
    day        first day of the alarm, UTC days since the first decision; -1: none, or not known
    sentence   the verdict in words
    """

    check: str
    side: str
    level: int
    statistic: float
    limit: float
    alarm: bool
    rows: int
    day: int
    sentence: str
