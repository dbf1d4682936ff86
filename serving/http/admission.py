"""Bound of the bytes of request bodies that a process holds at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from serving.http.limits import MAX_BYTES_IN_FLIGHT, SMALL_BODY
from serving.http.refused import Overloaded


class Hold:
    """Bytes of one request, counted as they arrive."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._size = 0
        self.counted = 0

    def add(self, size: int) -> None:
        """Count more bytes of the request's body.

        Raises:
            Overloaded: other large bodies leave no place for them.
        """
        self._size += size
        more = max(0, self._size - SMALL_BODY) - self.counted
        if more > 0:
            self._admission.take(more)
            self.counted += more

    def release(self) -> None:
        """Count these bytes no longer: the request was refused, and only its answer is due."""
        self._admission.held -= self.counted
        self.counted = 0


class Admission:
    """Budget of ``limit`` bytes for the bodies that have arrived and are not yet answered.

    The first ``SMALL_BODY`` bytes of each body are not counted: callers with small bodies are served while
    others fill the limit with large ones.
    """

    def __init__(self, limit: int = MAX_BYTES_IN_FLIGHT) -> None:
        self._limit = limit
        self.held = 0

    def take(self, size: int) -> None:
        """Count ``size`` bytes, or raise :class:`Overloaded` and count none."""
        if self.held + size > self._limit:
            raise Overloaded(f"{self._limit} bytes of other requests are being handled; send the request again")
        self.held += size

    @contextmanager
    def hold(self) -> Iterator[Hold]:
        """Count the bytes of one request while the context lasts."""
        held = Hold(self)
        try:
            yield held
        finally:
            self.held -= held.counted
