"""Cache of values that were read a moment ago."""

from collections.abc import Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Recent(Generic[Value]):
    """Values by key for ``seconds`` after they were put, at most ``2 · size`` of them.

    Two generations of a plain dictionary: a full one becomes the old one, and what was old is forgotten. So
    nothing is ever searched or sorted, and each operation is one or two of a dictionary, safe between threads.
    """

    def __init__(self, seconds: float, size: int) -> None:
        self._seconds = seconds
        self._size = size
        self._young: dict[Hashable, tuple[float, Value]] = {}
        self._old: dict[Hashable, tuple[float, Value]] = {}

    def get(self, key: Hashable, now: float) -> Value | None:
        """The value put at most ``seconds`` before ``now``, if any."""
        entry = self._young.get(key) or self._old.get(key)
        # A value put after ``now`` is of a clock that has been set back, perhaps by days.
        return entry[1] if entry is not None and 0 <= now - entry[0] < self._seconds else None

    def put(self, key: Hashable, value: Value, now: float) -> None:
        """Remember a value."""
        if len(self._young) >= self._size:
            self._young, self._old = {}, self._young
        self._young[key] = now, value
