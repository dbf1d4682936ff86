"""Micro-batching: calls that wait together are answered together."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from serving.http.limits import MAX_WAITING
from serving.protocol import Answers, Requests
from shadowprice.errors import Unavailable

Result = Answers | Exception
AnswerAll = Callable[[Sequence[Requests]], Awaitable[Sequence[Result]]]
"""Result of each call, in order: its answers, or the error that refuses it."""

AT_ONCE = 3
"""Micro-batches in flight: while one waits for the ledger, another is decided."""
ENOUGH = 16
"""Waiting requests that start another micro-batch beside those in flight; for fewer, its own cost exceeds its gain."""

Call = tuple[Requests, "asyncio.Future[Answers]"]


class MicroBatcher:
    """Joins calls into micro-batches, on one event loop.

    Reading features, deciding and authorizing cost nearly as much for one request as for fifty. So a micro-batch
    takes all calls that wait: a lone call does not wait, and under load the work per call falls. Calls that arrive
    while micro-batches are in flight wait for the end of one, or until there are enough for another. Dispatching each
    call on arrival would never form a batch: answering one call keeps the loop from reading the next.

    answer_all  answers the calls of one micro-batch; may run several times at once
    most        most requests of one micro-batch; a longer call goes alone
    at_once     most micro-batches in flight
    enough      waiting requests that start another micro-batch beside those in flight
    """

    def __init__(self, answer_all: AnswerAll, most: int, at_once: int = AT_ONCE, enough: int = ENOUGH) -> None:
        self._answer_all = answer_all
        self._most = most
        self._waiting: deque[Call] = deque()
        self._requests = 0
        self._at_once = at_once
        self._enough = enough
        self._due = False
        self._under_way: set[asyncio.Task[None]] = set()

    async def answer(self, requests: Requests) -> Answers:
        """Answer of ``answer_all`` to these requests, or its error.

        Raises:
            Unavailable: too many requests wait already.
        """
        if self._requests > MAX_WAITING:
            raise Unavailable("too many requests wait for their turn; send this one again later")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answers] = loop.create_future()
        self._waiting.append((requests, future))
        self._requests += len(requests)
        if self._may_begin() and not self._due:
            # Not at once: what else has arrived by now is read first, and goes along.
            self._due = True
            loop.call_soon(self._hand_out, loop)
        return await future

    def _may_begin(self) -> bool:
        going = len(self._under_way)
        return bool(self._waiting) and (not going or (going < self._at_once and self._requests >= self._enough))

    def _hand_out(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = False
        while self._may_begin():
            calls: list[Call] = []
            size = 0
            while self._waiting and (not calls or size + len(self._waiting[0][0]) <= self._most):
                requests, future = self._waiting.popleft()
                self._requests -= len(requests)
                if future.done():  # its caller gave up: an authorization would hold money for nobody
                    continue
                calls.append((requests, future))
                size += len(requests)
            if not calls:
                return
            task = loop.create_task(self._batch(calls))
            self._under_way.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._hand_out(task.get_loop())

    async def _batch(self, calls: Sequence[Call]) -> None:
        outcomes: Sequence[Result]
        try:
            outcomes = await self._answer_all([requests for requests, _ in calls])
        except Exception as error:  # a fault of ours: each caller is told
            outcomes = [error] * len(calls)
        for (_, future), outcome in zip(calls, outcomes, strict=True):
            if future.done():  # the caller went away; the authorization stays in the ledger
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
