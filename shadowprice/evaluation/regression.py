"""Metrics of predicted quantities."""

from __future__ import annotations

import numpy as np

from shadowprice.evaluation.intervals import Statistic
from shadowprice.evaluation.metric import Array, mean_of, metric


@metric
def mae(y: Array, p: Array) -> Statistic:
    """Mean absolute difference of prediction ``p`` (N,) and response ``y`` (N,). O(N)."""
    return mean_of(np.abs(y - p))


@metric
def mse(y: Array, p: Array) -> Statistic:
    """Mean squared difference of prediction ``p`` (N,) and response ``y`` (N,). O(N)."""
    return mean_of((y - p) ** 2)
