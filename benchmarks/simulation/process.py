"""A process of the ledger in the simulation: it starts, answers, sweeps, and is stopped or killed."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from benchmarks.simulation.loop import VirtualLoop
from benchmarks.simulation.stores import Watched, World, abandon, writer_of
from serving.ledger.api.ledger import Ledger
from serving.ledger.durability import Durability
from serving.ledger.opening import open_store
from serving.ledger.store import Store
from shadowprice.campaign import Campaign
from shadowprice.errors import Conflict, Unavailable
from shadowprice.pacing.decision_log.tree import leaf

SWEEP_SECONDS = 300.0
Answer = TypeVar("Answer")


class Surroundings(World, Protocol):
    """Part of the world that a process needs."""

    campaign: Campaign
    hard_stop: bool
    loop: VirtualLoop
    folder: Path
    url: str
    logged: list[bytes]

    def wall(self, machine: int) -> int:
        """Time that the clock of a machine shows, microseconds since 1970."""

    async def travel(self) -> None:
        """Wait while a message is under way; some never arrive."""

    def run(self, step: Coroutine[Any, Any, None]) -> None:
        """Let something go on by itself."""


class Process:
    """The ledger on one machine; it is started anew after each end."""

    def __init__(self, world: Surroundings, machine: int) -> None:
        self._world = world
        self.machine = machine
        self.store: Store | None = None
        self.started_at = 0
        self._ledger: Ledger | None = None
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._waiting: dict[asyncio.Future[Any], None] = {}

    @property
    def runs(self) -> bool:
        return self._ledger is not None

    def start(self) -> None:
        world = self._world
        self.store = open_store(
            world.campaign,
            world.folder / "ledger.db",
            world.url,
            clock=lambda: world.microseconds,
            wall=lambda: world.wall(self.machine),
            durability=Durability(witness=world.folder / "witness.json"),
        )
        self._steps = writer_of(self.store, world)
        self._steps.died = self.kill
        self.started_at = world.microseconds
        self._ledger = Ledger(cast(Store, Watched(self.store, world)), world.campaign, world.hard_stop)
        self._run(self._sweep())

    def kill(self) -> None:
        """End it as SIGKILL does."""
        if self.store is not None:
            abandon(self.store)
            self._steps.kill()
        self._end()

    def stop(self) -> None:
        """End it as SIGTERM does: what was asked is finished."""
        if self.store is not None:
            self.store.close()
        self._end()

    async def ask(self, call: Callable[[Ledger], Awaitable[Answer]]) -> Answer:
        """Return the answer to a call that travels there and back.

        Raises:
            OSError: the connection was lost, or nobody listens.
            ShadowpriceError: the ledger's.
        """
        answer: asyncio.Future[Answer] = self._world.loop.create_future()
        self._waiting[answer] = None
        # It goes on where the caller gives up: what is late is not lost.
        self._world.run(self._arrive(call, answer))
        try:
            return await answer
        finally:
            self._waiting.pop(answer, None)

    async def _arrive(self, call: Callable[[Ledger], Awaitable[Answer]], answer: asyncio.Future[Answer]) -> None:
        await self._world.travel()
        if self._ledger is None:
            if not answer.done():
                answer.set_exception(ConnectionRefusedError("nobody listens"))
            return
        for _ in range(1 + self._world.chance("sent twice")):
            self._run(self._answer(self._ledger, call, answer))

    async def _answer(
        self, ledger: Ledger, call: Callable[[Ledger], Awaitable[Answer]], answer: asyncio.Future[Answer]
    ) -> None:
        error: Exception | None = None
        try:
            found = await call(ledger)
        except Exception as raised:  # all of them travel to the caller
            error = raised
        await self._world.travel()
        if not answer.done():
            if error is None:
                answer.set_result(found)
            else:
                answer.set_exception(error)

    async def _sweep(self) -> None:
        assert self._ledger is not None
        store = self._ledger.store
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            try:
                await asyncio.wrap_future(store.expire(store.date()))
                store.check()
                logged = self._world.logged
                logged += map(leaf, store.decisions_after(len(logged), 10**9))
            except (Conflict, Unavailable):
                continue

    def _run(self, step: Any) -> None:
        task = self._world.loop.create_task(step)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def _end(self) -> None:
        self.store = self._ledger = None
        for task in list(self._tasks):
            task.cancel()
        for answer in list(self._waiting):
            if not answer.done():
                answer.set_exception(ConnectionResetError("the other side was killed"))
