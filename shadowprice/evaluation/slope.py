"""The slope of response in incentive value: what data show with confounders fixed, what a model says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from shadowprice.curves import check_levels
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.groups import codes, crossed
from shadowprice.evaluation.intervals import Statistic
from shadowprice.evaluation.metric import Array, as_rows, mean_of, metric


@dataclass(frozen=True)
class Slope:
    """Response per minor unit of incentive, within cells.

    value, standard_error, t  the slope, its cluster-robust error, their quotient
    p_value                   two-sided, from the t distribution with ``clusters − 1`` degrees
    low, high                 interval of the same distribution at ``level``
    rows, cells, clusters     sizes of the sample
    informative_rows          rows of cells in which the value varies; only they carry the slope
    """

    value: float
    standard_error: float
    t: float
    p_value: float
    low: float
    high: float
    level: float
    rows: int
    cells: int
    clusters: int
    informative_rows: int


def within_slope(
    y: ArrayLike, value: ArrayLike, cells: list[ArrayLike], *, cluster: ArrayLike | None = None, level: float = 0.95
) -> Slope:
    """Least-squares slope of response in incentive value with the confounders' cells held fixed.

    ``y = slope · value + effect of the cell + error``; cell effects are absorbed by taking each
    cell's means off, so the slope compares only rows that share merchant, threshold and window.

    Args:
        y: (N,) responses; value: (N,) incentive in minor units.
        cells: identifier columns (N,) that together name a cell.
        cluster: (N,) account of each row; each row by itself when None.
        level: of the interval.

    Standard error: Liang–Zeger with the factor G/(G−1) · (N−1)/(N−cells−1), which equals ordinary
    least squares with one dummy per cell. O(N log N).

    Raises:
        InvalidInput: the value varies within no cell, or there are too few rows or accounts.
    """
    columns = as_rows({"y": y, "value": value})
    rows = columns["y"].size
    of, groups = crossed(*cells, field="cells")
    owner, owners = (np.arange(rows), rows) if cluster is None else codes(cluster, field="cluster")
    if not of.size == owner.size == rows:
        raise InvalidInput(f"must have one entry per row, {rows}", field="cells" if of.size != rows else "cluster")
    response, amount = (_within(columns[name], of, groups) for name in ("y", "value"))
    spread = np.bincount(of, np.abs(amount) > 1e-9 * np.abs(columns["value"]).max(), minlength=groups)
    square = float(amount @ amount)
    if not spread.any():
        raise InvalidInput("does not vary within any cell; the slope cannot be told from the cells", field="value")
    if rows <= groups + 1 or owners < 2:
        raise InvalidInput("too few rows or accounts for a standard error", field="cells")
    slope = float(amount @ response) / square
    score = np.bincount(owner, amount * (response - slope * amount), minlength=owners)
    factor = owners / (owners - 1) * (rows - 1) / (rows - groups - 1)
    error = float(np.sqrt(factor * (score @ score))) / square
    quotient = slope / error if error > 0 else float(np.copysign(np.inf, slope))
    half = float(stats.t.ppf((1 + level) / 2, owners - 1)) * error
    return Slope(
        slope,
        error,
        quotient,
        float(2 * stats.t.sf(abs(quotient), owners - 1)),
        slope - half,
        slope + half,
        level,
        rows,
        groups,
        owners,
        int(np.isin(of, np.flatnonzero(spread)).sum()),
    )


@metric
def curve_slope(response: Array, *, levels: ArrayLike) -> Statistic:
    """Mean slope of a model's curves, response per minor unit.

    ``response`` (J, N) at ``levels`` (J,) minor units, J ≥ 2: each account's least-squares line
    through its curve, averaged over accounts; to be set beside :func:`within_slope`. O(J·N).
    """
    amounts = check_levels(levels).astype(np.float64)
    if response.shape[0] != amounts.size or amounts.size < 2:
        raise InvalidInput(f"must have one entry per row of response, at least 2, got {amounts.size}", field="levels")
    centred = amounts - amounts.mean()
    return mean_of(centred @ response / (centred @ centred))


def _within(column: Array, of: np.ndarray, groups: int) -> Array:
    means = np.bincount(of, column, minlength=groups) / np.bincount(of, minlength=groups)
    return np.asarray(column - means[of])
