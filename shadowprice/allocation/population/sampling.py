"""Sample of blocks of accounts, and the error of its mean.

Accounts are often stored in a meaningful order (region, age, activity), so a block of neighbors has less information
than as many independent accounts. One block is drawn from each of many equal strata. The variance is that of
differences between neighboring blocks: it includes clustering inside blocks, and excludes a trend along the file.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

WIDTH = 16
"""Accounts per block: one cache line of float32."""


BLOCKS = 1024
"""Blocks that a sample has at least: the fewer, the less is known of its error."""


def block_width(size: int, grain: int) -> int:
    """Accounts per block of a sample of about ``size`` where ``grain`` neighbors are read as fast as one."""
    return min(max(grain, WIDTH), max(WIDTH, size // BLOCKS))


def strata(accounts: int, size: int, seed: int = 0, width: int = WIDTH) -> NDArray[np.int64]:
    """Starts of about ``size / width`` blocks, one at a random place of each stratum; ascending, reproducible."""
    width = min(width, accounts)
    blocks = max(1, min(size, accounts) // width)
    buffer = accounts // blocks
    place = _places(blocks, seed) * (buffer - width + 1)
    return np.arange(blocks, dtype=np.int64) * buffer + place.astype(np.int64)


@lru_cache(maxsize=16)
def _places(blocks: int, seed: int) -> NDArray[np.float64]:
    """(blocks,) in [0, 1), reproducible from its arguments."""
    return np.random.default_rng(seed).random(blocks)


def error_of_mean(values: NDArray[np.float64], width: int = WIDTH) -> float:
    """Standard error of the mean of (n,) values that were sampled in blocks of ``width``."""
    blocks = values.size // width
    if blocks < 2:
        return float(np.abs(values).max(initial=0.0))
    means = values[: blocks * width].reshape(blocks, width).mean(axis=1)
    steps = np.diff(means)
    return float(np.sqrt((steps * steps).sum() / (2 * (blocks - 1) * blocks)))
