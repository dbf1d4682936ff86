"""Metrics of predicted quantities."""

from __future__ import annotations

import numpy as np

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.intervals import Statistic
from shadowprice.evaluation.statistics.metric import Array, mean_of, metric, ratio


@metric
def mae(y: Array, p: Array) -> Statistic:
    """Mean absolute difference of prediction ``p`` (N,) and response ``y`` (N,). O(N)."""
    return mean_of(np.abs(y - p))


@metric
def mse(y: Array, p: Array) -> Statistic:
    """Mean squared difference of prediction ``p`` (N,) and response ``y`` (N,). O(N)."""
    return mean_of((y - p) ** 2)


@metric
def normalised_gini(y: Array, p: Array) -> Statistic:
    """Gini coefficient of amounts ordered by prediction, over that of amounts in their own order.

    ``y`` (N,) amounts ≥ 0, ``p`` (N,) any score. 1 is a perfect order, 0 a random one. Rows of equal
    score share what they hold. NaN when all amounts are equal. O(N log N).
    Source: the lift of Frees, Meyers and Cummings (2011); Wang, Liu and Miao (2019) for amounts.
    """
    InvalidInput.refuse_rows(y < 0, "must not be negative", field="y")
    own, best = _gini(y, p), _gini(y, y)
    return lambda weight: ratio(own(weight), best(weight))


def _gini(y: Array, p: Array) -> Statistic:
    order = np.argsort(-p, kind="stable")
    ends = np.flatnonzero(np.r_[np.diff(p[order]) != 0, True])

    def statistic(weight: Array) -> Array:
        drawn = weight[:, order]
        start = np.zeros((len(weight), 1))
        rows, held = (np.hstack([start, np.cumsum(each, axis=1)[:, ends]]) for each in (drawn, drawn * y[order]))
        area = (np.diff(rows, axis=1) * (held[:, 1:] + held[:, :-1])).sum(axis=1) / 2
        gini = ratio(area, rows[:, -1] * held[:, -1]) - 0.5
        return np.where(np.abs(gini) < 1e-12, 0.0, gini)

    return statistic
