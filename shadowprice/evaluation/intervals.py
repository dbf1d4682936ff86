"""Intervals for any weighted statistic: a bootstrap that draws whole accounts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.groups import codes

Statistic = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Weights float64 (B, N) to one value per row of weights, float64 (B,)."""

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


@dataclass(frozen=True, kw_only=True)
class Interval:
    """How to draw an interval around a metric.

    level         probability that the interval is meant to cover
    replications  bootstrap samples
    cluster       (N,) account of each row; whole accounts are drawn, because rows of one account
                  are not independent. Without it every row is its own account.
    seed          of the draw; equal seeds and clusters draw the same samples
    """

    level: float = 0.95
    replications: int = 1000
    cluster: ArrayLike | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise InvalidInput("must lie between 0 and 1", field="interval.level")
        if self.replications < 1:
            raise InvalidInput("must be at least 1", field="interval.replications")


def point(statistic: Statistic, weight: NDArray[np.float64]) -> float:
    """The statistic at one vector of weights (N,)."""
    return float(statistic(weight[None])[0])


def bootstrap(statistic: Statistic, weight: NDArray[np.float64], interval: Interval, basic: bool = False) -> Estimate:
    """Estimate with a bootstrap interval by account.

    The interval is the percentile one; with ``basic`` it is the reversed one, ``2·value`` less the
    percentiles and cut at 0, for sums of absolute values, whose replicates lie too high.
    Replicates in which the statistic is undefined (NaN) are left out.

    O(replications · cost of the statistic). Source: Efron and Tibshirani (1993), ch. 13; accounts
    as the unit: Cameron, Gelbach and Miller (2008).
    """
    value = point(statistic, weight)
    draws = [statistic(weight * counts) for counts in resamples(weight.size, interval)]
    replicates = np.concatenate(draws)
    replicates = replicates[np.isfinite(replicates)]
    if replicates.size == 0:
        return Estimate(value, np.nan, np.nan, interval.level)
    tail = (1 - interval.level) / 2
    low, high = np.quantile(replicates, [tail, 1 - tail])
    if basic:
        low, high = max(2 * value - high, 0.0), max(2 * value - low, 0.0)
    return Estimate(value, float(low), float(high), interval.level)


def resamples(rows: int, interval: Interval) -> Iterator[NDArray[np.float64]]:
    """Chunks (B, rows) of how often each row is drawn when accounts are drawn with replacement."""
    of, accounts = _accounts(rows, interval.cluster)
    rng = np.random.default_rng(interval.seed)
    chunk = max(1, CELLS_AT_ONCE // max(rows, accounts))
    for start in range(0, interval.replications, chunk):
        size = min(chunk, interval.replications - start)
        drawn = rng.integers(0, accounts, (size, accounts))
        drawn += np.arange(size)[:, None] * accounts
        counts = np.bincount(drawn.ravel(), minlength=size * accounts).reshape(size, accounts)
        yield counts[:, of].astype(np.float64)


def _accounts(rows: int, cluster: Any) -> tuple[NDArray[np.intp], int]:
    if cluster is None:
        of, accounts = np.arange(rows), rows
    else:
        of, accounts = codes(cluster, field="interval.cluster")
        if of.size != rows:
            raise InvalidInput(f"must have one entry per row, {rows}, got {of.size}", field="interval.cluster")
    if accounts < 2:
        raise InvalidInput("an interval needs at least two accounts", field="interval.cluster")
    return of, accounts
