"""An event loop in virtual time: it waits for nothing, and the next moment comes at once."""

import asyncio
from typing import Any


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs what is ready, then lets the time pass until something is. It has no files and no threads."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._selector: Any = self

    def time(self) -> float:
        return self._now

    @property
    def microseconds(self) -> int:
        return round(self._now * 1e6)

    def select(self, timeout: float | None) -> list[Any]:
        """Let the time pass; the base class waits with this.

        Raises:
            RuntimeError: nothing will ever happen.
        """
        if timeout is None:
            raise RuntimeError("every task waits, and for nothing")
        self._now += timeout
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """No thread waits in :meth:`select`."""
