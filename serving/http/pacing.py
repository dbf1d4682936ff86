"""Share of an event loop that connections get before their first admitted request."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from time import perf_counter
from typing import Any

from serving.http.limits import IDLE_SHARE, STRANGER_SECONDS, STRANGER_SHARE, STRANGER_WINDOW

Turn = Callable[[], None]


class Pace:
    """Bucket of seconds, which strangers spend and which fills by a share of the time.

    A stranger is a connection without an admitted request. The share is small while admitted callers are served. The
    waiting peers take turns, so that one with many connections does not delay the others.
    """

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._left = STRANGER_SECONDS
        self._filled = clock()
        self._served = float("-inf")
        self._waiting: OrderedDict[str, deque[Turn]] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    def serve(self) -> None:
        """Note that an admitted caller is being served."""
        self._served = self._clock()

    def charge(self, seconds: float) -> None:
        """Count seconds that a stranger took; below 0 for those of one that proved to be an admitted caller."""
        self._left -= seconds

    def free(self) -> bool:
        """Return whether a stranger may go on now: there is time, and no other one waits for it."""
        return not self._waiting and self._has_time()

    def _has_time(self) -> bool:
        now = self._clock()
        self._left = min(STRANGER_SECONDS, self._left + (now - self._filled) * self._share(now))
        self._filled = now
        return self._left > 0

    def _share(self, now: float) -> float:
        return STRANGER_SHARE if now - self._served < STRANGER_WINDOW else IDLE_SHARE

    def wait(self, peer: str, turn: Turn) -> None:
        """Call ``turn`` when it is the peer's turn."""
        self._waiting.setdefault(peer, deque()).append(turn)
        self._schedule()

    def _schedule(self) -> None:
        if self._timer is None and self._waiting:
            # Until the bucket is full, so that the loop wakes seldom.
            seconds = (STRANGER_SECONDS - self._left) / self._share(self._clock())
            self._timer = asyncio.get_running_loop().call_later(seconds, self._next)

    def _next(self) -> None:
        self._timer = None
        try:
            while self._waiting and self._has_time():
                peer, turns = self._waiting.popitem(last=False)
                turn = turns.popleft()
                if turns:
                    self._waiting[peer] = turns
                turn()
        finally:
            # Whatever a turn raises, the others have theirs.
            self._schedule()


class Timed:
    """Awaitable of a call that reports the seconds of each of its steps, without those in which it waits."""

    def __init__(self, call: Awaitable[None], report: Callable[[float], None]) -> None:
        self._call = call
        self._report = report

    def __await__(self) -> Generator[Any, Any, None]:
        """Run the call."""
        steps: Any = self._call.__await__()
        step = partial(steps.send, None)
        while True:
            started = perf_counter()
            try:
                waited = step()
            except StopIteration:
                return
            finally:
                self._report(perf_counter() - started)
            try:
                yield waited
                step = partial(steps.send, None)
            except BaseException as error:
                step = partial(steps.throw, error)
