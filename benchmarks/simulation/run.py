"""Simulate the whole path of money from a seed: rounds of one campaign each, on either store."""

import asyncio
import logging
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

from benchmarks.faults.redis_server import RedisServer
from benchmarks.simulation.callers import Callers, check_told, connect
from benchmarks.simulation.compare import compare
from benchmarks.simulation.faults import Faults
from benchmarks.simulation.reference import Violation, check
from benchmarks.simulation.stores import simulated
from benchmarks.simulation.world import TTL_HOURS, World
from serving.ledger.api import ledger as ledger_api
from serving.predictor.ledger import client
from shadowprice.pacing.decision_log.tree import heads_of, leaf

StoreKind = Literal["sqlite", "redis"]
ROUND = 10_000
"""Operations on one campaign."""
PREDICTORS, REPORTERS = 4, 6
MEMORY = Path("/dev/shm")
"""Folder whose files are in memory, where there is one: nothing waits for a disk."""


@dataclass
class Result:
    """Outcome of a run.

    trace       digest of every step of every round
    operations  decisions, look-ups, outcomes, corrections, returns and sweeps that a store carried out or refused
    seconds     real time
    """

    trace: str = ""
    operations: int = 0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)


def simulate(
    seed: int,
    operations: int,
    kind: StoreKind,
    planted: Mapping[str, str] | None = None,
    size: int = ROUND,
    lines: list[str] | None = None,
) -> Result:
    """Run rounds of ``size`` operations until ``operations`` were done. Equal arguments give an equal trace.

    Args:
        seed: of everything that is drawn.
        operations: at least so many; the last round is whole.
        kind: of store.
        planted: faults of the scripts, by the text that they replace.
        size: operations of a round.
        lines: gets every line of the trace.

    Raises:
        Violation: the ledger did what the reference does not; names the round, whose seed replays it.
    """
    result, trace, started = Result(), sha256(), time.perf_counter()
    logger = logging.getLogger("serving")
    level, number = logger.level, 0
    logger.setLevel(logging.CRITICAL + 1)
    where = MEMORY if MEMORY.is_dir() else None
    try:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="simulation", dir=where)))
            server = RedisServer(folder / "redis") if kind == "redis" else None
            if server is not None:
                server.start()
                stack.callback(server.stop)
            while result.operations < operations:
                place = folder / str(number)
                place.mkdir()
                world = World(f"{seed}/{kind}/{number}", place, server)
                world.lines = lines
                try:
                    _round(world, server, size, planted or {})
                except Violation as error:
                    raise Violation(
                        f"seed {seed}, {kind}, round {number}, after {result.operations + world.operations} "
                        f"operations: {error}"
                    ) from error
                result.operations += world.operations
                result.counts += world.counts
                trace.update(world.trace.digest())
                number += 1
    finally:
        logger.setLevel(level)
    result.trace, result.seconds = trace.hexdigest(), time.perf_counter() - started
    return result


def _round(world: World, server: RedisServer | None, operations: int, planted: Mapping[str, str]) -> None:
    async def inline(call: Any, *given: Any) -> Any:
        return call(*given)

    with (
        simulated(world, planted),
        patch.object(client, "connect", connect),
        patch.object(ledger_api, "run_in_threadpool", inline),
    ):
        world.until_over(_story(world, server, operations))


async def _story(world: World, server: RedisServer | None, operations: int) -> None:
    faults, callers = Faults(world, server), Callers(world, operations)
    for process in world.processes:
        process.start()
    world.calm = False
    injecting = world.loop.create_task(faults.go_on())
    try:
        await asyncio.gather(
            callers.move(),
            *(callers.predict() for _ in range(PREDICTORS)),
            *(callers.report() for _ in range(REPORTERS)),
        )
        injecting.cancel()
        await asyncio.gather(injecting, return_exceptions=True)
        await _end(world, faults, callers)
    finally:
        injecting.cancel()


async def _end(world: World, faults: Faults, callers: Callers) -> None:
    """Let all faults end: everything told is recorded, every sum is right, and what is open expires."""
    if world.promoted and world.server is not None:
        world.server.swap()
        world.promoted = False
    await faults.end()
    stores = [process.store for process in world.processes]
    for store in stores:
        assert store is not None
        compare(world.reference, store)
    check_told(callers.told, [(name, request.given) for name, request in world.reference.requests.items()])
    # A message that was late may still come; then a whole time to live passes.
    await asyncio.sleep(3600.0 * (TTL_HOURS + 3))
    for store in stores:
        assert store is not None
        # Sweeps logged the decisions, whichever process was alive: each head that a price may have had still holds.
        leaves = list(map(leaf, store.decisions_after(0, 10**9)))
        heads = {*range(1, len(world.logged), 500), len(world.logged)}
        check(list(heads_of(leaves, heads)), list(heads_of(world.logged, heads)), "heads of the log")
        while await asyncio.wrap_future(store.expire(store.date())):
            pass
        compare(world.reference, store)
    if world.reference.sums["open"]:
        raise Violation(f"{world.reference.sums['open']} minor units never expire")
