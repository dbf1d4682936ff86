"""Calls that wait together are answered together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread

from serving.protocol import Answers, Requests
from shadowprice.errors import Unavailable

Outcome = Answers | Exception
AnswerAll = Callable[[Sequence[Requests]], Sequence[Outcome]]
"""What each call is given, in order: its answers, or the error it is refused with."""

THREADS = 3
"""Gatherings in flight: while one waits for the ledger, another decides."""
MAX_WAITING = 20_000
"""Requests that may wait; more are refused, since their callers would have given up before their turn."""

Call = tuple[Requests, "asyncio.Future[Answers]"]


class Gatherer:
    """Between the event loop, which reads calls, and a few threads, which answer many of them at a time.

    Reading features, deciding and authorising cost nearly as much for one request as for fifty. So a
    thread takes all calls that wait when it becomes free, as the ledger's writer takes jobs: alone, a
    call waits for nobody; under load, the work per call falls. Used from one event loop.

    answer_all  answers calls on a thread; called by several at once
    most        requests of all calls of one gathering, at most; a longer call goes alone
    """

    def __init__(self, answer_all: AnswerAll, most: int, threads: int = THREADS) -> None:
        self._answer_all = answer_all
        self._most = most
        self._waiting: deque[Call] = deque()
        self._requests = 0
        self._idle = threads
        self._due = False
        self._work: SimpleQueue[tuple[asyncio.AbstractEventLoop, list[Call]]] = SimpleQueue()
        for number in range(threads):
            Thread(target=self._run, name=f"decide-{number}", daemon=True).start()

    async def answer(self, requests: Requests) -> Answers:
        """What ``answer_all`` gives these requests, or the error it gives.

        Raises:
            Unavailable: too many requests wait already.
        """
        if self._requests > MAX_WAITING:
            raise Unavailable("too many requests wait for their turn; send this one again later")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answers] = loop.create_future()
        self._waiting.append((requests, future))
        self._requests += len(requests)
        if self._idle and not self._due:
            # Not at once: what else has arrived by now is read first, and goes along.
            self._due = True
            loop.call_soon(self._hand_out, loop)
        return await future

    def _hand_out(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = False
        while self._idle and self._waiting:
            calls = [self._waiting.popleft()]
            size = len(calls[0][0])
            while self._waiting and size + len(self._waiting[0][0]) <= self._most:
                calls.append(self._waiting.popleft())
                size += len(calls[-1][0])
            self._requests -= size
            self._idle -= 1
            self._work.put((loop, calls))

    def _run(self) -> None:
        while True:
            loop, calls = self._work.get()
            try:
                outcomes = self._answer_all([requests for requests, _ in calls])
            except Exception as error:  # a fault of ours: each caller is told, and this thread goes on
                outcomes = [error] * len(calls)
            try:
                loop.call_soon_threadsafe(self._deliver, loop, calls, outcomes)
            except RuntimeError:  # the loop was closed: the service stops
                return

    def _deliver(self, loop: asyncio.AbstractEventLoop, calls: Sequence[Call], outcomes: Sequence[Outcome]) -> None:
        self._idle += 1
        for (_, future), outcome in zip(calls, outcomes, strict=True):
            if future.done():  # the caller went away; what was promised stands in the ledger
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        if self._waiting:
            self._hand_out(loop)
