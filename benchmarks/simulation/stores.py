"""The real stores, committed step by step, with what may go wrong between any two steps.

Both stores run as in a service. Replaced are only the thread of their writer, by steps of the event loop, and the clock
of Redis: its scripts read the time from a key that the simulation sets. Every job that a store carried out is shown to
the world in the order of its commit, whether or not its caller ever gets the answer.
"""

import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, Protocol
from unittest.mock import patch

import redis
from redis.client import Pipeline

from serving.http.limits import MAX_GROUP
from serving.ledger.groups import Group
from serving.ledger.redis import connection, layout, scripts
from serving.ledger.redis import store as redis_store
from serving.ledger.redis.layout import keys
from serving.ledger.redis.rows import unpack
from serving.ledger.redis.scripts import KEYS, Call, Runner
from serving.ledger.redis.store import RedisStore
from serving.ledger.sqlite import writer as sqlite_writer
from serving.ledger.sqlite.store import SqliteStore
from serving.ledger.store import Store
from shadowprice.campaign import Campaign
from shadowprice.errors import Conflict

CLOCK = "simulated:time"
"""Key of a Redis with the seconds and microseconds that its scripts take for its clock."""


class Killed(BaseException):
    """The process of a ledger ends between two statements; nothing of it catches this."""


@dataclass(frozen=True)
class Operation:
    """A call of a store.

    kind     method of the store
    asked    its first argument
    at       date of the records
    made_at  true time of the call, microseconds
    """

    kind: str
    asked: Any
    at: int
    made_at: int


class World(Protocol):
    """Part of the world that the steps of a store need."""

    full: bool

    def soon(self, step: Callable[[], None]) -> None:
        """Take a step a little later."""

    def chance(self, of: str) -> bool:
        """Return whether a fault happens now."""

    def upto(self, most: int) -> int:
        """Return a number from 0 to ``most``."""

    def saw(self, operation: Operation, result: Any, ledger_time: int, at: int) -> None:
        """Take note of an operation that was carried out at the true time ``at``, or refused with a conflict."""

    @property
    def microseconds(self) -> int:
        """True time."""

    @property
    def server_time(self) -> int:
        """Time that the clock of Redis shows."""


NOTED: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    **dict.fromkeys(("authorize", "settle", "correct", "release"), itemgetter(0)),
    "move": itemgetter(0, 1, 2, 3),
    "expire": lambda _: None,
}
"""Call of a store → what it asks, of its arguments; the last of these is a date."""


class Watched:
    """A store whose calls are noted, so that their commits can be told."""

    def __init__(self, store: Store, world: World) -> None:
        self._store = store
        self._world = world

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)
        return partial(self._noted, name, call) if name in NOTED else call

    def _noted(self, kind: str, call: Callable[..., Future[Any]], *given: Any) -> Future[Any]:
        Steps.calling = Operation(kind, NOTED[kind](given), given[-1], self._world.microseconds)
        try:
            return call(*given)
        finally:
            Steps.calling = None


class Steps:
    """Takes the place of :class:`serving.ledger.groups.Groups`: groups are committed by the event loop."""

    world: World
    calling: Operation | None = None
    died: Callable[[], None]

    def __init__(self, name: str, commit: Callable[[Group], None]) -> None:
        self._of_redis = name == "ledger-redis"
        self._commit = commit
        self._jobs: deque[tuple[Any, Future[Any], Operation | None]] = deque()
        self.alive = True

    def submit(self, job: Any) -> Future[Any]:
        """Take a job, to be committed soon."""
        future: Future[Any] = Future()
        self._jobs.append((job, future, Steps.calling))
        self.world.soon(self.step)
        return future

    def close(self) -> None:
        """Finish what was submitted."""
        while self.alive and self._jobs:
            self.step()
        self.alive = False

    def kill(self) -> None:
        """Forget what was submitted."""
        self._jobs.clear()
        self.alive = False

    def step(self) -> None:
        """Commit the next group, if any job waits."""
        if not self.alive or not self._jobs:
            return
        taken = [self._jobs.popleft() for _ in range(min(MAX_GROUP, len(self._jobs)))]
        Pipes.noted = {id(job): operation for job, _, operation in taken if operation is not None}
        Statements.committed = False
        try:
            self._commit([(job, future) for job, future, _ in taken])
        except Killed:
            if Statements.committed:
                self._show(taken)
            self.died()
            return
        if not self._of_redis:
            self._show(taken)

    def _show(self, taken: Sequence[tuple[Any, Future[Any], Operation | None]]) -> None:
        for job, future, operation in taken:
            if operation is None:
                continue
            result = None
            if future.done():
                error = future.exception()
                if error is not None and not isinstance(error, Conflict):
                    continue
                result = future.result() if error is None else error
            self.world.saw(operation, result, getattr(job, "now", 0), operation.made_at)


class Statements:
    """The connection of a writer of sqlite, whose process may end before any statement, and after the commit."""

    committed = False

    def __init__(self, database: sqlite3.Connection, world: World) -> None:
        self._database = database
        self._world = world
        self._left: int | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if sql == "BEGIN IMMEDIATE":
            self._left = self._world.upto(100) if self._world.chance("killed while it writes") else None
        self._step()
        done = self._database.execute(sql, *values)
        if sql == "COMMIT":
            Statements.committed = True
            if self._left is not None:
                raise Killed
        return done

    def executemany(self, sql: str, *values: Any) -> sqlite3.Cursor:
        self._step()
        return self._database.executemany(sql, *values)

    def _step(self) -> None:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise Killed


class Pipes:
    """Groups on their way to Redis: lost before it, cut in the middle, or answered to nobody."""

    world: World
    noted: Mapping[int, Operation] = {}
    calls: Sequence[Call] | None = None
    send = Runner._send
    execute = Pipeline.execute

    @staticmethod
    def sending(runner: Runner, calls: Sequence[Call]) -> Any:
        """Take the place of the runner's own method."""
        Pipes.calls = calls
        return Pipes.send(runner, calls)

    @staticmethod
    def executing(pipe: Any, raise_on_error: bool = True) -> Any:
        """Take the place of the pipeline's method; what is read passes as it is."""
        calls, Pipes.calls = Pipes.calls, None
        if calls is None:
            return Pipes.execute(pipe, raise_on_error)
        world, stack = Pipes.world, pipe.command_stack
        if world.chance("lost before Redis"):
            raise redis.ConnectionError("lost before Redis")
        sums = stack[0][0][3 + KEYS.index("sums")]
        cut = world.chance("cut before Redis")
        if cut:
            del stack[world.upto(len(calls) - 1) :]
        count = len(stack)
        before: list[Any] = [(each, {}) for each in clock(world)]
        stack[:0] = before
        stack.append((("HGET", sums, "ledger_time"), {}))
        *answers, ledger_time = Pipes.execute(pipe, raise_on_error=False)[len(before) :]
        for call, answer in zip(calls, answers, strict=False):
            if isinstance(answer, redis.RedisError) or answer[0] in (b"went_back", b"date"):
                continue
            try:
                result = call.read(unpack(answer[0]))
            except Conflict as error:
                result = error
            if id(call) in Pipes.noted:
                world.saw(Pipes.noted[id(call)], result, int(ledger_time), world.microseconds)
        if cut or world.chance("answer of Redis lost"):
            if world.chance("killed meanwhile"):
                raise Killed
            raise redis.ConnectionError("the answer was lost")
        assert len(answers) == count
        return answers


class Server:
    """A Redis of the simulation, with a standby beside it in the server's second database."""

    def __init__(self, url: str, campaign: Campaign, world: World) -> None:
        self._client = redis.Redis.from_url(url)
        self._standby = redis.Redis.from_url(url.replace("/0", "/1"))
        self._keys = keys(campaign.name)
        self._world = world
        self._client.flushall()
        self.set_clock()

    def set_clock(self) -> None:
        """Let the scripts see the time."""
        for command in clock(self._world):
            self._client.execute_command(*command)  # type: ignore[no-untyped-call]

    def records(self) -> tuple[int, ...]:
        """Numbers of decisions, outcomes, corrections and moves."""
        lists = (self._keys[KEYS.index(name)] for name in redis_store.RECORDS)
        return tuple(self._client.llen(name) for name in lists)  # type: ignore[misc]

    def copy(self) -> None:
        """Bring the standby up to date."""
        self._standby.flushdb()
        for key in self._keys:
            self._client.copy(key, key, destination_db="1")

    def swap(self) -> None:
        """Let the standby answer, and the server be the standby."""
        self._client.swapdb(0, 1)
        self.set_clock()

    def fill(self, full: bool) -> None:
        """Leave no room for writing, or enough."""
        self._world.full = full
        self.set_clock()

    def close(self) -> None:
        self.fill(False)
        self._client.close()
        self._standby.close()


def clock(world: World) -> list[tuple[Any, ...]]:
    """Return the commands that set the clock of a Redis, which is set also where there is no room for anything else."""
    room = ("CONFIG", "SET", "maxmemory")
    time = divmod(world.server_time, 1_000_000)
    return [(*room, 0), ("DEL", CLOCK), ("RPUSH", CLOCK, *time), (*room, int(world.full))]


def writer_of(store: Store, world: World) -> Steps:
    """Return the steps of a store that was opened, and let its statements be counted."""
    if isinstance(store, SqliteStore):
        store._writer._database = Statements(store._writer._database, world)  # type: ignore[assignment]
        return store._writer._groups  # type: ignore[return-value]
    assert isinstance(store, RedisStore)
    return store._groups  # type: ignore[return-value]


def abandon(store: Store) -> None:
    """Close what the system closes for a process that was killed; nothing is written."""
    if isinstance(store, SqliteStore):
        store._writer._database.close()
        store._reader.close()
        store._traffic_reader.close()
        store._claim.close()
    elif isinstance(store, RedisStore):
        store._client.close()


def fill(store: Store, full: bool) -> None:
    """Let the file of a store in sqlite not grow any more, or grow again."""
    if isinstance(store, SqliteStore):
        database = store._writer._database
        (pages,) = database.execute("PRAGMA page_count").fetchone()
        database.execute(f"PRAGMA max_page_count = {pages if full else 2**30}")


@contextmanager
def simulated(world: World, planted: Mapping[str, str]) -> Iterator[None]:
    """Let stores that are opened meanwhile run in the world; ``planted`` replaces texts of the scripts."""
    replaced = {"redis.call('TIME')": f"redis.call('LRANGE', '{CLOCK}', 0, 1)", **planted}

    def text(name: str) -> str:
        found = real(name)
        for old, new in replaced.items():
            found = found.replace(old, new)
        return found

    real = scripts.text
    Steps.world = Pipes.world = world
    patches: list[tuple[Any, str, Any]] = [
        (scripts, "text", text),
        (layout, "text", text),
        (connection, "TIMEOUT_SECONDS", 60.0),
        (sqlite_writer, "Groups", Steps),
        (redis_store, "Groups", Steps),
        (Runner, "_send", Pipes.sending),
        (Pipeline, "execute", Pipes.executing),
    ]
    with ExitStack() as stack:
        for place, name, value in patches:
            stack.enter_context(patch.object(place, name, value))
        for each in (scripts.source, scripts.digest):
            each.cache_clear()
            stack.callback(each.cache_clear)
        yield
