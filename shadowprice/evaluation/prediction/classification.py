"""Metrics of predictions against responses: amounts, or probabilities of responses in {0, 1}."""

import numpy as np

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.intervals import Statistic
from shadowprice.evaluation.statistics.metric import Array, as_binary, as_probability, mean_of, metric, ratio


@metric
def mae(y: Array, p: Array) -> Statistic:
    """Mean absolute difference of prediction ``p`` (N,) and response ``y`` (N,). O(N)."""
    return mean_of(np.abs(y - p))


@metric
def mse(y: Array, p: Array) -> Statistic:
    """Mean squared difference of prediction ``p`` (N,) and response ``y`` (N,). O(N)."""
    return mean_of((y - p) ** 2)


@metric
def normalized_gini(y: Array, p: Array) -> Statistic:
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
        rows, held = (np.hstack([start, np.cumsum(counts, axis=1)[:, ends]]) for counts in (drawn, drawn * y[order]))
        area = (np.diff(rows, axis=1) * (held[:, 1:] + held[:, :-1])).sum(axis=1) / 2
        gini = ratio(area, rows[:, -1] * held[:, -1]) - 0.5
        return np.where(np.abs(gini) < 1e-12, 0.0, gini)

    return statistic


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

    ``y`` (N,) in {0, 1}; ``p``, ``base`` (N,) scores. NaN where the baseline ranks at random (S3). O(N log N).
    """
    own, other = auc.statistic(y, p), auc.statistic(y, base)
    return lambda weight: 100.0 * (ratio(own(weight) - 0.5, other(weight) - 0.5) - 1.0)
