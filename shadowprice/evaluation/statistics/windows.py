"""Windows of time: consecutive rows whose conditions are alike."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

DAY = 86400.0
WEEK = 7


def weeks(seconds: ArrayLike, *, days: int = WEEK) -> NDArray[np.int64]:
    """Window (N,) of each time in unix seconds: whole windows of ``days`` days from the midnight before the first.

    >>> weeks([0.0, 6.9 * 86400, 7.1 * 86400]).tolist()
    [0, 0, 1]
    """
    at = np.asarray(seconds, dtype=np.float64)
    if at.size == 0:
        return np.zeros(0, dtype=np.int64)
    return np.asarray((at // DAY - at.min() // DAY) // days, dtype=np.int64)
