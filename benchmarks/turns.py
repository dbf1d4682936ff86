"""Jobs that are compared run piece by piece in turn: how fast a machine is changes while they run, for all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Semaphore

Job = Callable[[Callable[[object], None]], object]
"""Calls what it is given at the end of each of its pieces."""

MANY = 1_000_000
"""Turns."""


def in_turns(jobs: Mapping[str, Job]) -> dict[str, list[float]]:
    """Processor seconds of every piece of every job: the first of each job, then the second of each, and so on.

    A job runs on a thread of its own, of which its seconds are. All have as many pieces.
    """
    gates = [Semaphore(0) for _ in jobs]
    found: dict[str, list[float]] = {name: [] for name in jobs}

    def run(k: int, name: str, job: Job) -> None:
        after = gates[(k + 1) % len(gates)]
        gates[k].acquire()
        started = time.thread_time()

        def end(_: object) -> None:
            nonlocal started
            found[name].append(time.thread_time() - started)
            after.release()
            gates[k].acquire()
            started = time.thread_time()

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
