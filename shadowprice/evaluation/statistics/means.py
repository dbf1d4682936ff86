"""The mean of a response with an interval, also where accounts repeat or rows are weighted."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from shadowprice.evaluation.statistics.clusters import combined, partitions
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.statistics.metric import Array, as_rows, as_weights


def wilson(share: float, rows: float, level: float = 0.95) -> Estimate:
    """Score interval of a proportion ``share`` seen in ``rows`` independent rows (Wilson 1927)."""
    z = float(special.ndtri((1 + level) / 2))
    spread = 1 + z**2 / rows
    center = (share + z**2 / (2 * rows)) / spread
    half = z / spread * np.sqrt(share * (1 - share) / rows + z**2 / (4 * rows**2))
    return Estimate(share, float(min(center - half, share)), float(max(center + half, share)), level)


def mean(
    y: ArrayLike,
    weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    level: float = 0.95,
    *,
    partner: ArrayLike | None = None,
) -> Estimate:
    """Weighted mean of responses (N,) with its interval.

    Responses in {0, 1} get the Wilson interval at the effective number of rows: what weights leave
    (Kish 1965), or what accounts (``cluster``, (N,)) and partners (``partner``, (N,)) that repeat leave by their
    design effect, whichever is less. Other responses get a t interval with the variance between clusters and one
    degree of freedom less than the fewer of accounts and partners; it is NaN for a single account or partner.
    Two ways of clusters add up as in :func:`~shadowprice.evaluation.statistics.clusters.combined`. O(N log N).
    """
    values = as_rows({"y": y})["y"]
    weights = as_weights(weight, values.size)
    weights = weights / weights.sum()
    value = float(weights @ values)
    ways = partitions(values.size, cluster, partner, fields=("cluster", "partner"))
    excess = [way.sums(weights * (values - value)) for way in ways]
    shares = [way.sums(weights) for way in ways]
    if np.isin(values, (0.0, 1.0)).all():
        variance = float(combined([np.asarray(sums @ sums) for sums in excess]))
        return wilson(value, _effective_rows(value, variance, weights, shares), level)
    groups = [int(np.count_nonzero(share)) for share in shares]
    if min(groups) < 2:
        return Estimate(value, np.nan, np.nan, level)
    variance = float(combined([np.asarray(g / (g - 1) * (e @ e)) for g, e in zip(groups, excess, strict=True)]))
    half = float(special.stdtrit(min(groups) - 1, (1 + level) / 2)) * np.sqrt(variance)
    return Estimate(value, float(value - half), float(value + half), level)


def _effective_rows(value: float, variance: float, weights: Array, shares: list[Array]) -> float:
    if variance == 0:
        return min(float(1 / (share @ share)) for share in shares)
    return min(float(1 / (weights @ weights)), value * (1 - value) / variance)
