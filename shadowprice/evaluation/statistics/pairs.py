"""Differences between two models that were judged on the same rows or the same seeds."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.intervals import Estimate, Interval, bootstrap
from shadowprice.evaluation.statistics.metric import Array, Metric, as_rows, as_weights


def paired_difference(
    metric: Metric,
    y: ArrayLike,
    p1: ArrayLike,
    p2: ArrayLike,
    *,
    weight: ArrayLike | None = None,
    interval: Interval | None = None,
) -> Estimate:
    """``metric(y, p1) − metric(y, p2)`` with an interval from samples that both models share.

    ``y``, ``p1``, ``p2`` and ``weight`` are (N,). Drawing the accounts of the ``interval`` for both removes what the
    sample does to both alike.
    """
    first, second = metric.statistic(y, p1), metric.statistic(y, p2)

    def difference(weights: Array) -> Array:
        return first(weights) - second(weights)

    return bootstrap(difference, as_weights(weight, np.shape(y)[-1]), interval or Interval())


def paired_over_seeds(a: ArrayLike, b: ArrayLike, *, level: float = 0.95) -> Estimate:
    """Mean of ``a − b`` over seeds with its t interval.

    ``a``, ``b`` (S,) hold one value of a metric per seed, in the same order of seeds; S ≥ 2.
    """
    columns = as_rows({"a": a, "b": b})
    difference = columns["a"] - columns["b"]
    if difference.ndim != 1 or difference.size < 2:
        raise InvalidInput("needs one value per seed, at least two seeds", field="a")
    value = float(difference.mean())
    half = float(stats.t.ppf((1 + level) / 2, difference.size - 1) * stats.sem(difference))
    return Estimate(value, value - half, value + half, level)
