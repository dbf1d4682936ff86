"""Mean responses by level, kept to the effects that the rows show."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shadowprice.evaluation.statistics.level_means import LevelMeans, Means
from shadowprice.evaluation.statistics.metric import Array
from shadowprice.responses.repair.repair import pava

ERROR = 0.05
"""Probability that a test finds an effect that is none."""
SURE = 0.01
"""The same of the comparisons of ordered levels, which find an effect that the test of trend does not."""


def shown_means(rows: LevelMeans, response: Array, amounts: NDArray[np.int64], *, ordered: bool) -> Array:
    """Return the mean response (J,) of each level as far as the rows show that it differs from the lowest one.

    Args:
        rows: levels, weights and clusters of N requests.
        response: (N,) responses.
        amounts: (J,) incentives of the levels, minor units.
        ordered: whether a higher level is more of the same incentive.

    Ordered levels have the isotonic regression of their means where the rows identify a rise (:func:`rises`). A level
    without an order has its own mean where it differs from the lowest level at 5 % (Holm). All others have the mean of
    the lowest level: an effect that is not shown does not count. A level without rows counts as the one below it.

    Complexity: O(N log N). Source: Barlow, Bartholomew, Bremner and Brunk (1972) for the regression.
    """
    means = rows.of(response)
    known = np.flatnonzero((means.groups > 1) & (rows.total > 0))
    if not known.size:
        return np.full(rows.levels, float(response @ rows.weight) / float(rows.weight.sum()))
    found = np.full(known.size, means.value[0, known[0]])
    if ordered and rises(means, rows, amounts):
        found = pava(means.value[0, known], rows.total[known])
    elif not ordered:
        adjusted = holm(means, known.tolist())
        shown = [place for place, level in enumerate(known.tolist()) if adjusted.get(level, 1.0) < ERROR]
        found[shown] = means.value[0, known[shown]]
    place = np.searchsorted(known, np.arange(rows.levels), side="right") - 1
    return np.asarray(found[np.maximum(place, 0)])


def rises(means: Means, rows: LevelMeans, amounts: NDArray[np.int64]) -> bool:
    """Return whether ordered levels show that the response rises with the incentive.

    The weighted least-squares slope on the amount is positive at 5 %. Where it differs from zero on neither side, one
    level that responds more than the lowest at 1 % (Holm) is enough.
    """
    known = np.flatnonzero(means.groups > 1)
    if known.size < 2:
        return False
    count = np.where(means.groups > 1, np.bincount(rows.level, minlength=rows.levels), 0)
    centred = amounts - float(count @ amounts) / count.sum()
    trend = means.contrast(count * centred / float(count @ centred**2))
    if means.p_value(trend) < ERROR:
        return means.at(trend) > 0
    lowest = means.value[0, known[0]]
    return any(p < SURE and means.value[0, level] > lowest for level, p in holm(means, known.tolist()).items())


def holm(means: Means, known: Sequence[int]) -> dict[int, float]:
    """Level → p-value of its difference to the lowest level, adjusted for the number of levels (Holm 1979)."""
    unit = np.eye(means.groups.size)
    raw = {level: means.p_value(means.contrast(unit[level] - unit[known[0]])) for level in known[1:]}
    largest, found = 0.0, {}
    for rank, level in enumerate(sorted(raw, key=raw.__getitem__)):
        largest = max(largest, min(1.0, raw[level] * (len(raw) - rank)))
        found[level] = largest
    return found
