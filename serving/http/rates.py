"""Limits of each caller, as token buckets: calls a second, and money authorized an hour."""

import math
import time
from collections.abc import Callable

from serving.http.refused import TooManyCalls

HOUR_SECONDS = 3600.0


class _Buckets:
    """A bucket of each caller that holds ``most`` and fills up by ``per_second``."""

    def __init__(self, per_second: float, most: float, clock: Callable[[], float]) -> None:
        self.per_second = per_second
        self._most = most
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def left(self, caller: str) -> float:
        """Return what is in the bucket; below 0 where more was taken than it held."""
        left, at = self._left.get(caller, (self._most, self._clock()))
        return min(self._most, left + (self._clock() - at) * self.per_second)

    def take(self, caller: str, amount: float) -> None:
        """Take an amount out."""
        self._left[caller] = self.left(caller) - amount, self._clock()


class Rates:
    """Limit of ``per_second`` calls for each caller; a caller that was idle may send one second's calls at once.

    per_second  0: no limit
    """

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._calls = _Buckets(per_second, max(1.0, per_second), clock)

    def take(self, caller: str) -> None:
        """Count one call.

        Raises:
            TooManyCalls: the caller has none left; says when there is one again.
        """
        rate = self._calls.per_second
        if rate <= 0:
            return
        left = self._calls.left(caller)
        if left < 1.0:
            raise TooManyCalls(
                f"over {rate:g} calls a second; send the request again later", math.ceil((1.0 - left) / rate)
            )
        self._calls.take(caller, 1.0)


class Amounts:
    """Limit of the money that is authorized for each caller: ``per_hour`` minor units, and as much at once.

    The amount of a call is known after its answer. So a call is answered whole while something is left, and only calls
    in progress can exceed the limit.

    per_hour  0: no limit

    A limit for each account belongs to the ledger's transaction, which alone counts amounts exactly.
    """

    def __init__(self, per_hour: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._money = _Buckets(per_hour / HOUR_SECONDS, per_hour, clock)

    def check(self, caller: str) -> None:
        """Make sure that something is left for the caller.

        Raises:
            TooManyCalls: nothing is left; says when there is something again.
        """
        rate = self._money.per_second
        if rate <= 0:
            return
        left = self._money.left(caller)
        if left <= 0:
            raise TooManyCalls(
                f"over {rate * HOUR_SECONDS:g} minor units an hour; send the request again later",
                math.floor(-left / rate) + 1,
            )

    def add(self, caller: str, amount: int) -> None:
        """Count money that was authorized, in minor units."""
        if self._money.per_second > 0:
            self._money.take(caller, amount)
