"""Timing that can be compared: the best of several runs, against one read of the same array."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

PATIENCE = 2.0
"""Seconds over which what takes milliseconds is run again and again."""


def best(
    function: Callable[[], Any], repeat: int = 3, clock: Callable[[], float] = time.perf_counter
) -> tuple[float, Any]:
    """Seconds of the fastest of ``repeat`` runs, and the last result."""
    seconds, result = np.inf, None
    for _ in range(repeat):
        started = clock()
        result = function()
        seconds = min(seconds, clock() - started)
    return seconds, result


def steady(function: Callable[[], Any], patience: float = PATIENCE, least: int = 3) -> tuple[float, float, Any]:
    """Seconds on the clock and of the processors, each of the fastest of as many runs as fit into ``patience``.

    The last result comes third; it is let go of before the next run, so that peak memory counts one answer.
    """
    seconds = processor = np.inf
    begun, runs, result = time.perf_counter(), 0, None
    while runs < least or time.perf_counter() - begun < patience:
        result = None
        started, used = time.perf_counter(), time.process_time()
        result = function()
        processor = min(processor, time.process_time() - used)
        seconds = min(seconds, time.perf_counter() - started)
        runs += 1
    return seconds, processor, result


def stream_read(
    array: np.ndarray, repeat: int = 9, clock: Callable[[], float] = time.perf_counter, threads: int = 1
) -> float:
    """Seconds to read an array once: its largest entry.

    numpy's maximum is vectorized, has no chain of additions as a sum has, and writes nothing. For arrays beyond the
    caches it runs at the speed of memory, as does the kernel's own scan in C. Several threads read equal parts and are
    started beforehand; where one thread alone is faster, its time is returned.
    """
    flat = array.reshape(-1)
    alone = best(lambda: flat.max(), repeat, clock)[0]
    if threads == 1:
        return alone
    parts = np.array_split(flat, threads)
    with ThreadPoolExecutor(threads - 1) as pool:

        def together() -> None:
            others = [pool.submit(part.max) for part in parts[1:]]
            parts[0].max()
            for other in others:
                other.result()

        return min(alone, best(together, repeat, clock)[0])
