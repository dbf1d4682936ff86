"""Difference between the ledger's wall clock and every other source of time it has."""

from collections.abc import Callable

from serving.ledger.clock import Clock, monotonic, wall
from serving.ledger.records import Dates


class ClockSkew:
    """Measures the wall clock against a monotonic clock since the start, and against the dates of a store.

    Money and dates do not depend on the wall clock while the ledger runs; only its first date does.
    """

    def __init__(self, dates: Callable[[], Dates], clock: Clock = monotonic, wall: Clock = wall) -> None:
        self._dates = dates
        self._clock = clock
        self._wall = wall
        self._origin = wall() - clock()

    def seconds(self) -> float:
        """Return the largest difference, signed: positive where the wall clock is ahead."""
        dates = self._dates()
        now = self._wall()
        gaps = [now - self._origin - self._clock()]
        if dates.server is not None:
            gaps.append(now - dates.server)
        if dates.recorded is not None:
            # Time passes after a decision, so only a wall clock before it is wrong, or was then.
            gaps.append(min(now - dates.recorded, 0))
        return max(gaps, key=abs) / 1e6
