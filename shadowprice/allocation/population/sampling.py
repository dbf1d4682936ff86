"""Blocks of accounts to look at first, and how far their mean may be from the truth.

Accounts are stored in some order that means something (region, age, activity), so a block of
neighbours says less than as many strangers. One block is drawn from each of many equal strata, and
the variance is that of differences between neighbouring blocks: it sees clustering inside blocks, and
does not blame a trend along the file on chance.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

WIDTH = 16
"""Accounts per block: one cache line of float32."""


BLOCKS = 1024
"""Blocks that a sample has at least: the fewer, the less is known of its error."""


def block_width(size: int, grain: int) -> int:
    """Accounts per block of a sample of about ``size`` where ``grain`` neighbours are read as fast as one."""
    return min(max(grain, WIDTH), max(WIDTH, size // BLOCKS))


def strata(accounts: int, size: int, seed: int = 0, width: int = WIDTH) -> NDArray[np.int64]:
    """Starts of about ``size / width`` blocks, one at a random place of each stratum; ascending, reproducible."""
    width = min(width, accounts)
    blocks = max(1, min(size, accounts) // width)
    room = accounts // blocks
    place = _places(blocks, seed) * (room - width + 1)
    return np.arange(blocks, dtype=np.int64) * room + place.astype(np.int64)


@lru_cache(maxsize=16)
def _places(blocks: int, seed: int) -> NDArray[np.float64]:
    """(blocks,) in [0, 1), the same for the same numbers."""
    return np.random.default_rng(seed).random(blocks)


def error_of_mean(values: NDArray[np.float64], width: int = WIDTH) -> float:
    """Standard error of the mean of (n,) values that were sampled in blocks of ``width``."""
    blocks = values.size // width
    if blocks < 2:
        return float(np.abs(values).max(initial=0.0))
    means = values[: blocks * width].reshape(blocks, width).mean(axis=1)
    steps = np.diff(means)
    return float(np.sqrt((steps * steps).sum() / (2 * (blocks - 1) * blocks)))
