"""Faults that last: ended processes, clocks that are wrong, disks that are full, storms, and a replica that lags."""

import asyncio

from benchmarks.faults.redis_server import RedisServer
from benchmarks.simulation.process import Process
from benchmarks.simulation.reference import Violation
from benchmarks.simulation.stores import fill
from benchmarks.simulation.world import STORM, World
from serving.ledger.redis.store import RedisStore
from shadowprice.errors import Conflict, Unavailable

HOUR = 3_600_000_000
BETWEEN_SECONDS = 900.0


class Faults:
    """Begins and ends faults, one after the other."""

    def __init__(self, world: World, redis: RedisServer | None) -> None:
        self.world = world
        self._redis = redis
        self._copied: tuple[int, ...] | None = None

    async def go_on(self) -> None:
        faults = {self.kill: 4, self.stop: 1, self.set_clock: 4, self.fill: 2, self.rage: 2}
        if self._redis is not None:
            faults |= {self.set_server_clock: 3, self.copy: 4, self.promote: 4, self.kill_redis: 1}
        while True:
            await asyncio.sleep(self.world.dice.expovariate(1 / BETWEEN_SECONDS))
            (fault,) = self.world.dice.choices(list(faults), list(faults.values()))
            self.world.note(fault.__name__)
            await fault()
            await self.start_all()

    async def start_all(self) -> None:
        for process in self.world.processes:
            while not process.runs:
                await asyncio.sleep(self.world.dice.choice((0.5, 30.0, 600.0)))
                self.start(process)

    def start(self, process: Process) -> None:
        """Start a ledger, unless its store cannot be used for now."""
        if self._redis is None:
            # Nothing tells a file that a clock which is ahead at the start is wrong.
            self.world.wrong[0] = min(self.world.wrong[0], 0)
        try:
            process.start()
        except Unavailable as error:
            self.world.note("not started", error)

    async def end(self) -> None:
        """End every fault, and every ledger that a fault has stopped for good."""
        world = self.world
        world.storm, world.server_wrong, world.wrong = 1, 0, [0] * len(world.wrong)
        world.calm = True
        if world.server is not None:
            world.server.fill(False)
        for process in world.processes:
            process.kill()
        await self.start_all()

    async def kill(self) -> None:
        self._any().kill()

    async def stop(self) -> None:
        calm, self.world.calm = self.world.calm, True
        self._any().stop()
        self.world.calm = calm

    async def set_clock(self) -> None:
        # Where both it and Redis are ahead, nothing tells a ledger that starts so.
        ahead = () if self.world.server_wrong > 0 else (1, 96)
        self.world.wrong[self._any().machine] = self.world.dice.choice((-96, -1, 0, *ahead)) * HOUR

    async def set_server_clock(self) -> None:
        ahead = () if max(self.world.wrong) > 0 else (96,)
        self.world.server_wrong = self.world.dice.choice((-96, 0, 0, *ahead)) * HOUR

    async def fill(self) -> None:
        for full in (True, False):
            if self.world.server is not None:
                self.world.server.fill(full)
            elif (store := self.world.processes[0].store) is not None:
                fill(store, full)
            await asyncio.sleep(self.world.dice.uniform(1, 600) if full else 0)

    async def rage(self) -> None:
        """Let all that may happen to a message happen more often for a while."""
        self.world.storm = STORM
        await asyncio.sleep(self.world.dice.uniform(1, 600))
        self.world.storm = 1

    async def kill_redis(self) -> None:
        """Kill Redis; it starts again with all that it had answered."""
        assert self._redis is not None
        self._redis.kill()
        self._redis.start()

    async def copy(self) -> None:
        assert self.world.server is not None
        self.world.server.copy()
        self._copied = self.world.server.records()

    async def promote(self) -> None:
        """Let a standby answer that lacks records which every running ledger has seen; restore the newest later."""
        world, server = self.world, self.world.server
        assert server is not None
        stores = [process.store for process in world.processes if isinstance(process.store, RedisStore)]
        behind = self._copied
        if behind is None or not stores or not all(_lacks(behind, store._runner.seen[1:]) for store in stores):
            return
        server.swap()
        world.promoted = True
        world.note("promoted", behind)
        await asyncio.sleep(world.dice.uniform(1, 1200))
        if _lacks(behind, world.witnessed()):
            started = self._any()
            started.kill()
            try:
                started.start()
            except Conflict:
                world.note("witness refused")
            else:
                raise Violation("a ledger started on a replica that lacks records which the witness has noted")
        server.swap()
        world.promoted = False
        for process in world.processes:
            process.kill()

    def _any(self) -> Process:
        return self.world.dice.choice(self.world.processes)


def _lacks(behind: tuple[int, ...], seen: object) -> bool:
    return any(has < had for has, had in zip(behind, seen, strict=True))  # type: ignore[call-overload]
