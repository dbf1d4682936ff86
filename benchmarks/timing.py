"""Timing that can be compared: the best of several runs, against one read of the same array."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np


def best(function: Callable[[], Any], repeat: int = 3) -> tuple[float, Any]:
    """Seconds of the fastest of ``repeat`` runs, and the last result."""
    seconds, result = np.inf, None
    for _ in range(repeat):
        started = time.perf_counter()
        result = function()
        seconds = min(seconds, time.perf_counter() - started)
    return seconds, result


def stream_read(array: np.ndarray) -> float:
    """Seconds to read an array once: its sum."""
    return best(lambda: array.sum(), repeat=5)[0]
