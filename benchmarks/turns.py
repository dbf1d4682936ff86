"""Jobs that are compared run piece by piece in turn: how fast a machine is changes while they run, for all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import NamedTuple

Job = Callable[[Callable[[object], None]], object]
"""Calls what it is given at the end of each of its pieces."""


class Took(NamedTuple):
    """Seconds of a piece: of the processor, in the job's main thread, and by the clock."""

    processor: float
    clock: float


def in_turns(jobs: Mapping[str, Job]) -> dict[str, list[Took]]:
    """Run the pieces of all jobs in turns: the first of each job, then the second of each, and so on.

    A job is a process of its own, a copy of this one: threads of several jobs in one process would wait for work on the
    same cores. This process must not have computed on several threads before. All have as many pieces.

    Raises:
        RuntimeError: a job failed; the others have ended, with what they had done by then.
    """
    fork = get_context("fork")
    ends: dict[str, Connection] = {}
    processes = []
    for name, job in jobs.items():
        ends[name], other = fork.Pipe()
        processes.append(fork.Process(target=_run, args=(job, other), daemon=True))
        processes[-1].start()
        other.close()
    found: dict[str, list[Took]] = {name: [] for name in jobs}
    waiting = list(jobs)
    try:
        while waiting:
            for name in tuple(waiting):
                ends[name].send(None)
                took = _answer(name, ends[name])
                if took is None:
                    waiting.remove(name)
                else:
                    found[name].append(took)
    finally:
        for process in processes:
            # A copy may have inherited a handler of SIGTERM that does not end it.
            process.kill()
            process.join()
    return found


def _answer(name: str, end: Connection) -> Took | None:
    try:
        given = end.recv()
    except EOFError:
        raise RuntimeError(f"the job {name!r} ended without a word") from None
    if isinstance(given, str):
        raise RuntimeError(f"the job {name!r} failed: {given}")
    return given  # type: ignore[no-any-return]


def _run(job: Job, pipe: Connection) -> None:
    """Run in the job's own process: send a piece on each request, and None after the last."""
    pipe.recv()
    started = time.thread_time(), time.perf_counter()

    def end(_: object) -> None:
        nonlocal started
        pipe.send(Took(time.thread_time() - started[0], time.perf_counter() - started[1]))
        pipe.recv()
        started = time.thread_time(), time.perf_counter()

    try:
        job(end)
    except BaseException as error:
        pipe.send(f"{type(error).__name__}: {error}")
        raise
    pipe.send(None)
