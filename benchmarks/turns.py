"""Jobs that are compared run piece by piece in turn: how fast a machine is changes while they run, for all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Semaphore
from typing import NamedTuple

Job = Callable[[Callable[[object], None]], object]
"""Calls what it is given at the end of each of its pieces."""

MANY = 1_000_000
"""Turns."""


class Took(NamedTuple):
    """Seconds of a piece: of the processor, in the job's own thread, and by the clock."""

    processor: float
    clock: float


def in_turns(jobs: Mapping[str, Job]) -> dict[str, list[Took]]:
    """What every piece of every job took: the first of each job, then the second of each, and so on.

    A job runs on a thread of its own; what it gives to others counts by the clock alone. All have as many pieces.
    """
    gates = [Semaphore(0) for _ in jobs]
    found: dict[str, list[Took]] = {name: [] for name in jobs}

    def run(k: int, name: str, job: Job) -> None:
        after = gates[(k + 1) % len(gates)]
        gates[k].acquire()
        started = time.thread_time(), time.perf_counter()

        def end(_: object) -> None:
            nonlocal started
            found[name].append(Took(time.thread_time() - started[0], time.perf_counter() - started[1]))
            after.release()
            gates[k].acquire()
            started = time.thread_time(), time.perf_counter()

        try:
            job(end)
        except BaseException:
            for gate in gates:  # nobody waits for a turn that will not come
                gate.release(MANY)
            raise
        after.release()

    with ThreadPoolExecutor(len(gates)) as pool:
        running = [pool.submit(run, k, name, job) for k, (name, job) in enumerate(jobs.items())]
        gates[0].release()
    for each in running:
        each.result()
    return found
