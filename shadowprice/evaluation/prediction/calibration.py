"""Calibration of predictions: calibration error and calibration tables."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.checks import require
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.intervals import Estimate, Interval, Statistic
from shadowprice.evaluation.statistics.means import mean
from shadowprice.evaluation.statistics.metric import Array, as_rows, as_weights, metric


@partial(metric, basic=True)
def ece(y: Array, p: Array, *, groups: ArrayLike | None = None, bins: int = 10) -> Statistic:
    """Expected calibration error: Σ_g share_g · |mean p − mean y| over groups g of rows.

    ``groups`` (N,) whole numbers ≥ 0, for instance the index of the incentive level; without it the
    groups are ``bins`` equally filled ranges of ``p``. The value is biased upwards by about
    √(groups / N); the interval, a reversed bootstrap one, takes most of that off again, so it may
    lie wholly below the value. O(N log N).
    Source: Naeini, Cooper and Hauskrecht (2015), with equally filled bins.
    """
    of = equal_bins(p, bins) if groups is None else _group_index(groups, y.size)
    member = np.zeros((y.size, int(of.max()) + 1))
    member[np.arange(y.size), of] = p - y

    def statistic(weight: Array) -> Array:
        return np.asarray(np.abs(weight @ member).sum(axis=1) / weight.sum(axis=1))

    return statistic


@dataclass(frozen=True)
class CalibrationTable:
    """Mean prediction against mean response in G groups of rows.

    rows       int64 (G,)
    predicted  float64 (G,), mean prediction; NaN for an empty group
    observed   float64 (G,), mean response
    low, high  float64 (G,), interval of the mean response
    ece        expected calibration error over these groups
    """

    rows: NDArray[np.int64]
    predicted: NDArray[np.float64]
    observed: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    ece: float


def calibration_table(
    y: ArrayLike,
    p: ArrayLike,
    groups: ArrayLike,
    *,
    size: int | None = None,
    weight: ArrayLike | None = None,
    interval: Interval | None = None,
) -> CalibrationTable:
    """Compare prediction and response within groups of rows.

    Args:
        y: (N,) responses; p: (N,) predictions.
        groups: (N,) whole numbers ≥ 0: an incentive level's index, or :func:`equal_bins` of ``p``.
        size: number of groups G, when some of the last may be empty.
        weight: (N,), default ones.
        interval: around the means of the responses, see :func:`shadowprice.evaluation.statistics.means.mean`.

    O(N log N).
    """
    columns = as_rows({"y": y, "p": p})
    of = _group_index(groups, columns["y"].size)
    weights = as_weights(weight, of.size)
    count = max(size or 0, int(of.max()) + 1)
    around = interval or Interval()
    accounts, partners = (None if ids is None else np.asarray(ids) for ids in (around.cluster, around.partner))
    predicted, observed, low, high = np.full((4, count), np.nan)
    for g in range(count):
        inside = (of == g) & (weights > 0)
        if not inside.any():
            continue
        own, other = (None if ids is None else ids[inside] for ids in (accounts, partners))
        seen = mean(columns["y"][inside], weights[inside], own, around.level, partner=other)
        predicted[g] = np.average(columns["p"][inside], weights=weights[inside])
        observed[g], low[g], high[g] = seen.value, seen.low, seen.high
    error = ece(columns["y"], columns["p"], groups=of, weight=weights)
    return CalibrationTable(np.bincount(of, minlength=count), predicted, observed, low, high, error)


@dataclass(frozen=True)
class WorstBin:
    """Equally filled range of the prediction in which prediction and response differ most.

    predicted        mean prediction in it
    observed         mean response; its interval holds for all ranges together
    distance         of the prediction from that interval; 0 inside it
    place, ranges    number of the range from the lowest prediction, counted from 1; how many there are
    """

    predicted: float
    observed: Estimate
    distance: float
    place: int
    ranges: int


def worst_bin(
    y: ArrayLike,
    p: ArrayLike,
    *,
    bins: int = 10,
    weight: ArrayLike | None = None,
    interval: Interval | None = None,
) -> WorstBin:
    """Find the range of the prediction that is furthest from its responses.

    Arguments as for :func:`calibration_table`, of which the intervals are taken at 1 − (1 − level) / bins (Bonferroni):
    with calibrated predictions no distance is above 0 in a share ``level`` of the samples. O(N log N).
    """
    of = equal_bins(p, bins)
    around = interval or Interval()
    every = 1 - (1 - around.level) / (int(of.max()) + 1)
    table = calibration_table(y, p, of, weight=weight, interval=replace(around, level=every))
    away = np.nan_to_num(np.maximum(np.maximum(table.low - table.predicted, table.predicted - table.high), 0.0))
    gap = np.nan_to_num(np.abs(table.predicted - table.observed))
    k = int(np.lexsort((gap, away))[-1])
    observed = Estimate(float(table.observed[k]), float(table.low[k]), float(table.high[k]), every)
    return WorstBin(float(table.predicted[k]), observed, float(away[k]), k + 1, away.size)


def equal_bins(p: ArrayLike, bins: int = 10) -> NDArray[np.intp]:
    """Index (N,) of the equally filled range of ``p`` that each row falls in; equal values stay together."""
    require(bins >= 1, "bins", "must be at least 1")
    values = as_rows({"p": p})["p"]
    edges = np.unique(np.quantile(values, np.arange(1, bins) / bins))
    return np.unique(np.searchsorted(edges, values, side="left"), return_inverse=True)[1]


def _group_index(groups: ArrayLike, rows: int) -> NDArray[np.intp]:
    of = np.asarray(groups)
    if of.shape != (rows,) or of.dtype.kind not in "iu":
        raise InvalidInput(f"must be {rows} whole numbers, got {of.dtype} {of.shape}", field="groups")
    InvalidInput.refuse_rows(of < 0, "must not be negative", field="groups")
    return of.astype(np.intp)
