"""Shape of response curves: reversed pairs, equal pairs, local roughness (S1, section 5)."""

import numpy as np
from numpy.typing import ArrayLike

from shadowprice.curves import check_levels
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.intervals import Statistic
from shadowprice.evaluation.statistics.metric import Array, mean_of, metric

EQUAL = 1e-9
"""Responses closer than this count as equal."""


@metric
def rpr(response: Array) -> Statistic:
    """Reversed pair rate: share of level pairs where more incentive means less response.

    ``response`` (J, N), levels ascending; the mean over accounts of 2·reversed / (J(J−1)), 0 for
    one level. A monotone curve has 0. O(J²·N).
    """
    return mean_of(_pair_share(response, -1))


@metric
def epr(response: Array) -> Statistic:
    """Equal pair rate: share of level pairs whose responses are equal within 1e-9.

    ``response`` (J, N), levels ascending; the mean over accounts of 2·equal / (J(J−1)), 0 for one
    level. A constant curve has 1. O(J²·N).
    """
    return mean_of(_pair_share(response, 0))


@metric
def mlss(response: Array, *, levels: ArrayLike, radius: float | None = None) -> Statistic:
    """Maximum local slope deviation: how rough a curve is at its roughest place.

    For each account, the largest standard deviation of the slopes between neighboring levels
    within ``radius`` of a level; then the mean over accounts. Response per minor unit.

    ``response`` (J, N); ``levels`` (J,) minor units; ``radius`` in minor units, ten times the median
    step by default (S1 gives no radius). A straight line has 0. O(J²·N).
    """
    amounts = check_levels(levels)
    if amounts.size != response.shape[0]:
        raise InvalidInput(f"must have one entry per row of response, {response.shape[0]}", field="levels")
    if amounts.size < 2:
        return mean_of(np.zeros(response.shape[1]))
    steps = np.diff(amounts)
    reach = 10 * float(np.median(steps)) if radius is None else radius
    slopes = np.diff(response, axis=0) / steps[:, None]
    roughest = np.zeros(response.shape[1])
    for center in amounts:
        near = (amounts[:-1] >= center - reach) & (amounts[1:] <= center + reach)
        if near.any():
            roughest = np.maximum(roughest, slopes[near].std(axis=0))
    return mean_of(roughest)


def _pair_share(response: Array, sign: int) -> Array:
    size = response.shape[0]
    pairs = np.zeros(response.shape[1])
    for lower in range(size - 1):
        rise = response[lower + 1 :] - response[lower]
        pairs += ((rise < -EQUAL) if sign < 0 else (np.abs(rise) <= EQUAL)).sum(axis=0)
    return np.asarray(pairs / max(1, size * (size - 1) // 2))
