"""Metrics of predicted probabilities against responses in {0, 1}."""

from __future__ import annotations

import numpy as np

from shadowprice.evaluation.intervals import Statistic
from shadowprice.evaluation.metric import Array, as_binary, as_probability, mean_of, metric, ratio


@metric
def auc(y: Array, p: Array) -> Statistic:
    """Area under the ROC curve: P(p of a responder > p of another) + ½ P(equal).

    ``y`` (N,) in {0, 1}, ``p`` (N,) any score. NaN when one class has no weight. O(N log N).
    """
    order = np.argsort(p, kind="stable")
    positive, score = as_binary(y)[order], p[order]
    starts = np.flatnonzero(np.r_[True, score[1:] != score[:-1]])

    def statistic(weight: Array) -> Array:
        ordered = weight[:, order]
        ones = np.add.reduceat(np.where(positive, ordered, 0.0), starts, axis=1)
        zeros = np.add.reduceat(np.where(positive, 0.0, ordered), starts, axis=1)
        below = np.cumsum(zeros, axis=1) - 0.5 * zeros
        return ratio((ones * below).sum(axis=1), ones.sum(axis=1) * zeros.sum(axis=1))

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
