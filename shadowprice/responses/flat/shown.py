"""Mean responses by level, kept to the differences that the rows show."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from shadowprice.evaluation.statistics.level_means import LevelMeans, Means
from shadowprice.evaluation.statistics.metric import Array

ERROR = 0.05
"""Probability that one comparison finds a difference that is none."""
SURE = 0.01
"""The same of the comparisons that tell an effect where the test of trend does not."""


def shown_means(rows: LevelMeans, response: Array, amounts: NDArray[np.int64], *, ordered: bool) -> Array:
    """Return the mean response (J,) of each level, as far as the rows show that it differs from the others.

    Args:
        rows: levels, weights and clusters of N requests.
        response: (N,) responses.
        amounts: (J,) incentives of the levels, minor units.
        ordered: whether a higher level is more of the same incentive.

    Ordered levels: neighbours are pooled, the least different first, until each pool responds more than the one below
    it by a test at 5 %. So the means never fall, and a level counts above the one below it only by a difference that is
    shown. Where the trial does not identify the effect (:func:`identified`) all levels are one pool.

    Levels without an order: each has its own mean where it differs from the lowest level at 5 % (Holm), else that of
    the lowest level.

    One pool of all levels has the mean of the lowest one: that is what a policy without an effect gives. A level
    without rows counts as the level below it.

    Complexity: O(N log N + J³). Source: Schell and Singh (1997), The reduced monotonic regression method, JASA 92.
    """
    means = rows.of(response)
    known = np.flatnonzero(means.groups > 1)
    if not known.size:
        return np.full(rows.levels, float(response @ rows.weight) / float(rows.weight.sum()))
    pools = [[int(known[0])]]
    if identified(means, rows, amounts, ordered=ordered):
        pools = _steps(means, rows.total, known.tolist()) if ordered else _arms(means, known.tolist())
    elif ordered:
        pools = [known.tolist()]
    found = np.full(rows.levels, float(means.value[0, known[0]]))
    for pool in pools if len(pools) > 1 else []:
        found[pool] = means.at(_pooled(means, rows.total, pool))
    return _filled(found, known)


def identified(means: Means, rows: LevelMeans, amounts: NDArray[np.int64], *, ordered: bool) -> bool:
    """Return whether the rows show that the response rises with the incentive.

    Ordered levels: the weighted least-squares slope on the amount is positive at 5 %; where it differs from zero on
    neither side, one level that responds more than the lowest at 1 % (Holm) is enough. Others: at 5 %.
    """
    known = np.flatnonzero(means.groups > 1)
    if known.size < 2:
        return False
    if ordered:
        count = np.where(means.groups > 1, np.bincount(rows.level, minlength=rows.levels), 0)
        centred = amounts - float(count @ amounts) / count.sum()
        trend = means.contrast(count * centred / float(count @ centred**2))
        if means.p_value(trend) < ERROR:
            return means.at(trend) > 0
    adjusted = _holm(means, known.tolist())
    limit = SURE if ordered else ERROR
    return any(p < limit and means.value[0, level] > means.value[0, known[0]] for level, p in adjusted.items())


def _steps(means: Means, total: Array, known: Sequence[int]) -> list[list[int]]:
    """Pools of neighbouring levels, each of which responds more than the one below; at least two."""
    pools = [[level] for level in known]
    while len(pools) > 2:
        rise = [_pooled(means, total, high) - _pooled(means, total, low) for low, high in pairwise(pools)]
        # One-sided: a fall is the least difference of all.
        sure = [means.p_value(each) if means.at(each) > 0 else 2.0 - means.p_value(each) for each in rise]
        worst = int(np.argmax(sure))
        if sure[worst] < ERROR:
            break
        pools[worst : worst + 2] = [pools[worst] + pools[worst + 1]]
    return pools


def _arms(means: Means, known: Sequence[int]) -> list[list[int]]:
    adjusted = _holm(means, known)
    return [[known[0]], *([level] for level, p in adjusted.items() if p < ERROR)]


def _holm(means: Means, known: Sequence[int]) -> dict[int, float]:
    """Level → p-value of its difference to the lowest level, adjusted for the number of levels (Holm 1979)."""
    unit = np.eye(means.groups.size)
    raw = {level: means.p_value(means.contrast(unit[level] - unit[known[0]])) for level in known[1:]}
    largest, found = 0.0, {}
    for rank, level in enumerate(sorted(raw, key=raw.__getitem__)):
        largest = max(largest, min(1.0, raw[level] * (len(raw) - rank)))
        found[level] = largest
    return found


def _pooled(means: Means, total: Array, pool: Sequence[int]) -> Array:
    """Return the contrast that is the weighted mean of a pool of levels."""
    share = np.zeros(means.groups.size)
    share[pool] = total[pool] / total[pool].sum()
    return means.contrast(share)


def _filled(found: Array, known: NDArray[np.intp]) -> Array:
    """Give a level without rows the mean of the level below it, and those below all rows that of the first one."""
    place = np.searchsorted(known, np.arange(found.size), side="right") - 1
    return np.asarray(found[known[np.maximum(place, 0)]])
