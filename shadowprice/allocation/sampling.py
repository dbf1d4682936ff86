"""Blocks of accounts to look at first, and how far their mean may be from the truth.

Accounts are stored in some order that means something (region, age, activity), so a block of
neighbours says less than as many strangers. One block is drawn from each of many equal strata, and
the variance is that of differences between neighbouring blocks: it sees clustering inside blocks, and
does not blame a trend along the file on chance.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

WIDTH = 16
"""Accounts per block: one cache line of float32."""


def strata(accounts: int, size: int, seed: int = 0) -> NDArray[np.int64]:
    """Starts of about ``size / WIDTH`` blocks, one at a random place of each stratum; ascending, reproducible."""
    width = min(WIDTH, accounts)
    blocks = max(1, min(size, accounts) // width)
    room = accounts // blocks
    place = np.random.default_rng(seed).random(blocks) * (room - width + 1)
    return np.arange(blocks, dtype=np.int64) * room + place.astype(np.int64)


def error_of_mean(values: NDArray[np.float64]) -> float:
    """Standard error of the mean of (n,) values that were sampled in blocks of ``WIDTH``."""
    blocks = values.size // WIDTH
    if blocks < 2:
        return float(np.abs(values).max(initial=0.0))
    means = values[: blocks * WIDTH].reshape(blocks, WIDTH).mean(axis=1)
    steps = np.diff(means)
    return float(np.sqrt((steps * steps).sum() / (2 * (blocks - 1) * blocks)))
