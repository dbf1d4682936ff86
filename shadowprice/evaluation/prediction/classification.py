"""Metrics of predicted probabilities against responses in {0, 1}."""

from __future__ import annotations

import numpy as np

from shadowprice.evaluation.statistics.intervals import Statistic
from shadowprice.evaluation.statistics.metric import Array, as_binary, as_probability, mean_of, metric, ratio


@metric
def auc(y: Array, p: Array) -> Statistic:
    """Area under the ROC curve: P(p of a responder > p of another) + ½ P(equal).

    ``y`` (N,) in {0, 1}, ``p`` (N,) any score. NaN when one class has no weight. O(N log N).
    """
    order = np.argsort(p, kind="stable")
    positive = as_binary(y)[order]
    ones, zeros = order[positive], order[~positive]
    lower, upper = (np.searchsorted(p[zeros], p[ones], side=side) for side in ("left", "right"))

    def statistic(weight: Array) -> Array:
        below = np.zeros((len(weight), zeros.size + 1))
        np.cumsum(weight[:, zeros], axis=1, out=below[:, 1:])
        own = weight[:, ones]
        won = 0.5 * np.einsum("bi,bi->b", own, below[:, lower] + below[:, upper])
        return ratio(won, own.sum(axis=1) * below[:, -1])

    return statistic


@metric
def logloss(y: Array, p: Array) -> Statistic:
    """Mean negative log-likelihood, in nats.

    ``y`` (N,) in {0, 1}, ``p`` (N,) in [0, 1]; certainty is taken as 1 − 2.2e-16, so one wrong
    certain prediction costs 36 nats instead of making the mean infinite. O(N).
    """
    responded = as_binary(y)
    least = np.finfo(np.float64).eps
    sure = np.clip(as_probability(p), least, 1 - least)
    return mean_of(-np.where(responded, np.log(sure), np.log1p(-sure)))


@metric
def brier(y: Array, p: Array) -> Statistic:
    """Mean squared difference of probability and response (Brier 1950).

    ``y`` (N,) in {0, 1}, ``p`` (N,) in [0, 1]. O(N).
    """
    return mean_of((as_binary(y) - as_probability(p)) ** 2)


@metric
def relaimpr(y: Array, p: Array, base: Array) -> Statistic:
    """Relative improvement of the AUC over a baseline's, in percent: ((AUC − ½) / (AUC of ``base`` − ½) − 1) · 100.

    ``y`` (N,) in {0, 1}; ``p``, ``base`` (N,) scores. NaN where the baseline ranks like a coin (S3). O(N log N).
    """
    own, other = auc.statistic(y, p), auc.statistic(y, base)
    return lambda weight: 100.0 * (ratio(own(weight) - 0.5, other(weight) - 0.5) - 1.0)
