"""Intervals for any weighted statistic: a bootstrap that draws whole accounts, or accounts and partners."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from shadowprice.checks import require
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.clusters import Clusters, combined, partitions, together

Statistic = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Weights float64 (B, N) to one value per row of weights, float64 (B,)."""

FIELDS = ("interval.cluster", "interval.partner")
CELLS_AT_ONCE = 4_000_000
"""Weights drawn at a time, so that a bootstrap needs some 100 MB whatever N is."""


@dataclass(frozen=True)
class Estimate:
    """A value and the interval ``[low, high]`` that covers it with probability ``level``."""

    value: float
    low: float
    high: float
    level: float = 0.95

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"

    def times(self, factor: float) -> Estimate:
        """Return the estimate in a unit of which one old unit is ``factor`` > 0."""
        return Estimate(factor * self.value, factor * self.low, factor * self.high, self.level)


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Options of an interval around a metric.

    level         probability that the interval is meant to cover
    replications  bootstrap samples
    cluster       (N,) account of each row; whole accounts are drawn, because rows of one account
                  are not independent. Without it every row is its own account.
    partner       (N,) partner of each row, where rows of different accounts with one partner are dependent too:
                  the clusters are then crossed, see :func:`bands`
    seed          of the draw; equal seeds and clusters draw the same samples
    """

    level: float = 0.95
    replications: int = 1000
    cluster: ArrayLike | None = None
    partner: ArrayLike | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        require(0 < self.level < 1, "interval.level", "must lie between 0 and 1")
        require(self.replications >= 1, "interval.replications", "must be at least 1")


def point(statistic: Statistic, weight: NDArray[np.float64]) -> float:
    """The statistic at one vector of weights (N,)."""
    return float(statistic(weight[None])[0])


def bootstrap(statistic: Statistic, weight: NDArray[np.float64], interval: Interval, basic: bool = False) -> Estimate:
    """Estimate with a bootstrap interval, see :func:`bands`.

    The interval is the percentile one; with ``basic`` it is the reversed one, ``2·value`` less the
    percentiles and cut at 0, for sums of absolute values, whose replicates lie too high.
    """
    value = point(statistic, weight)
    (low,), (high,) = bands(lambda counts: statistic(weight * counts)[:, None], weight.size, interval)
    if basic and np.isfinite(low):
        low, high = max(2 * value - high, 0.0), max(2 * value - low, 0.0)
    return Estimate(value, float(low), float(high), interval.level)


def bands(
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]], rows: int, interval: Interval
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower and upper limits (…) of a statistic with several values, by a bootstrap of whole clusters.

    One way of clusters gives the percentile interval. Two crossed ways draw accounts, partners and pairs in turn; the
    interval of the way with the larger variance is then widened around its mean, by √(V / V_way) with
    V = V_account + V_partner − V_pair. The percentiles are those of an expanded interval with the tails of a t
    distribution of G − 1 degrees of freedom; G counts the coarser way. Replicates in which a value is undefined (not
    finite) are left out; with none left its limits are NaN.

    Args:
        statistic: row weights (B, N) to values (B, …).
        rows: N.
        interval: how to draw.

    Complexity: O(replications · cost of the statistic), three times that with two crossed ways.
    Source: Efron and Tibshirani (1993), ch. 13; whole accounts: Cameron, Gelbach and Miller (2008); two ways: the
    same (2011); product weights: Owen (2007), Owen and Eckles (2012); expanded percentiles: Hesterberg (2015).
    """
    ways = _partitions(rows, interval)
    drawn = [_replicates(statistic, clusters, interval) for clusters in ways]
    shape, samples = drawn[0].shape[1:], [replicate.reshape(len(replicate), -1) for replicate in drawn]
    known = np.logical_and.reduce([np.isfinite(sample).any(axis=0) for sample in samples])
    samples = [np.where(np.isfinite(sample), sample, np.nan)[:, known] for sample in samples]
    variances = [np.nanvar(sample, axis=0) for sample in samples]
    base = samples[0]
    if len(samples) > 1:
        base = np.where(variances[1] > variances[0], samples[1], samples[0])
    own = np.nanvar(base, axis=0)
    widen = np.sqrt(np.divide(combined(variances), own, out=np.ones_like(own), where=own > 0))
    center, tail = np.nanmean(base, axis=0), _tail(interval.level, min(way.size for way in ways))
    limits = np.full((2, known.size), np.nan)
    limits[:, known] = center + widen * (np.nanquantile(base, [tail, 1 - tail], axis=0) - center)
    return limits[0].reshape(shape), limits[1].reshape(shape)


def estimates(
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]], rows: int, interval: Interval
) -> list[Estimate]:
    """Estimate each value of a statistic from row weights (B, N) to (B, K), with the limits of :func:`bands`."""
    limits = (statistic(np.ones((1, rows)))[0], *bands(statistic, rows, interval))
    return [
        Estimate(float(value), float(low), float(high), interval.level)
        for value, low, high in zip(*limits, strict=True)
    ]


def resamples(clusters: Clusters, interval: Interval) -> Iterator[NDArray[np.float64]]:
    """Chunks (B, rows) of how often each row is drawn when clusters are drawn with replacement."""
    rng = np.random.default_rng(interval.seed)
    size = clusters.size
    chunk = max(1, CELLS_AT_ONCE // max(clusters.of.size, size))
    for start in range(0, interval.replications, chunk):
        number = min(chunk, interval.replications - start)
        drawn = rng.integers(0, size, (number, size))
        drawn += np.arange(number)[:, None] * size
        counts = np.bincount(drawn.ravel(), minlength=number * size).reshape(number, size)
        yield counts[:, clusters.of].astype(np.float64)


def gathered(rows: int, interval: Interval) -> tuple[Clusters, Interval]:
    """Return the cells of rows that every sample draws together, and the interval of a statistic of the cells.

    The limits are those of the rows; the memory and time of a sample are those of the cells.
    """
    cells, first = together(rows, interval.cluster, interval.partner, fields=FIELDS)
    if interval.cluster is None:
        return cells, interval
    partner = None if interval.partner is None else np.asarray(interval.partner)[first]
    return cells, replace(interval, cluster=np.asarray(interval.cluster)[first], partner=partner)


def _tail(level: float, groups: int) -> float:
    """Share of replicates below the lower limit."""
    quantile = special.stdtrit(groups - 1, (1 + level) / 2) * np.sqrt(groups / (groups - 1))
    return float(special.ndtr(-quantile))


def _replicates(
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]], clusters: Clusters, interval: Interval
) -> NDArray[np.float64]:
    return np.concatenate([statistic(counts) for counts in resamples(clusters, interval)])


def _partitions(rows: int, interval: Interval) -> tuple[Clusters, ...]:
    ways = partitions(rows, interval.cluster, interval.partner, fields=FIELDS)
    if min(way.size for way in ways) < 2:
        field, noun = (FIELDS[0], "accounts") if interval.partner is None else (FIELDS[1], "partners")
        raise InvalidInput(f"an interval needs at least two {noun}", field=field)
    return ways
