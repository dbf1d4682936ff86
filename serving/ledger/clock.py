"""Ledger time and dates: a wall clock that jumps expires nothing, and moves no decision into another period.

Ledger time is a number of microseconds that a store keeps. It advances by the elapsed time of a monotonic clock while
a ledger runs. Downtime does not count: an authorization may be held longer than its time to live.
Its zero is 1970 for a new store, and drifts away from it; no date is made from it. Dates are those of a
:class:`Calendar`.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Clock = Callable[[], int]
"""Microseconds since any moment; never goes back while the process runs."""
_SOURCE = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def monotonic() -> int:
    """Microseconds of the platform's monotonic clock; includes the time that a machine is suspended where it can."""
    return time.clock_gettime_ns(_SOURCE) // 1000


class Calendar:
    """Dates of records, and of the periods of further limits; microseconds since 1970 (UTC).

    It starts at the wall clock, or at the newest date of the store where that is later, and goes on by a
    monotonic clock. So a wall clock that jumps does not change it, and one that was set back never begins a day twice.
    """

    def __init__(self, newest: int, clock: Clock, wall: Clock) -> None:
        self._clock = clock
        self._wall = wall
        self.restart(newest)

    def restart(self, newest: int) -> None:
        """Start it again, where the store has refused its date."""
        self._origin = max(self._wall(), newest) - self._clock()

    def now(self) -> int:
        """Return the date."""
        return self._origin + self._clock()


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(at: datetime) -> int:
    """Microseconds since 1970 (UTC) of an aware time, exactly."""
    return (at - EPOCH) // timedelta(microseconds=1)


def wall() -> int:
    """Microseconds since 1970 (UTC) by the wall clock."""
    return microseconds(datetime.now(UTC))


def time_of(microseconds: int) -> datetime:
    """Return the time (UTC) of microseconds since 1970; the inverse of :func:`microseconds`."""
    return EPOCH + timedelta(microseconds=microseconds)
