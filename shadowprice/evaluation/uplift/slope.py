"""Slope of response in incentive value: in the data with confounders fixed, and in a model."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from shadowprice.checks import require
from shadowprice.curves import check_levels
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.clusters import combined, partitions
from shadowprice.evaluation.statistics.groups import codes, crossed
from shadowprice.evaluation.statistics.intervals import Statistic
from shadowprice.evaluation.statistics.metric import Array, as_rows, mean_of, metric
from shadowprice.evaluation.statistics.random_effects import random_effects

NOT_IDENTIFIED = "the effect of the incentive is not identified by this log"
ROUNDING = 1e-12
"""Slope per minor unit that is taken for 0."""


@dataclass(frozen=True)
class Slope:
    """Response per minor unit of incentive, within cells.

    value, standard_error, t  the slope, its cluster-robust error, their quotient
    p_value                   two-sided, from the t distribution with ``clusters − 1`` degrees
    low, high                 interval of the same distribution at ``level``
    rows, cells, clusters     sizes of the sample; clusters are accounts, or partners where they are fewer
    informative_rows          rows of cells in which the value varies; only they carry the slope
    windows                   windows of time that were combined
    between                   standard deviation of the true slope between windows
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
    windows: int = 1
    between: float = 0.0

    @property
    def identified(self) -> bool:
        """Return whether the rows show that the response rises with the incentive: the interval lies above zero."""
        return self.low > 0

    def allows(self, rise: float) -> bool:
        """Return whether curves of slope ``rise`` lie inside the interval; its part below 0 counts as 0."""
        return max(self.low, 0.0) - ROUNDING <= rise <= max(self.high, 0.0) + ROUNDING


def within_slope(
    y: ArrayLike,
    value: ArrayLike,
    cells: list[ArrayLike],
    *,
    cluster: ArrayLike | None = None,
    partner: ArrayLike | None = None,
    level: float = 0.95,
) -> Slope:
    """Least-squares slope of response in incentive value with the confounders' cells held fixed.

    ``y = slope · value + effect of the cell + error``; subtracting each cell's means absorbs its effect.

    Args:
        y: (N,) responses; value: (N,) incentive in minor units.
        cells: identifier columns (N,) that together name a cell.
        cluster: (N,) account of each row; each row by itself when None.
        partner: (N,) partner of each row, a second way of clusters crossed with the first.
        level: of the interval.

    Standard error: Liang–Zeger with the factor G/(G−1) · (N−1)/(N−cells−1), which equals ordinary least squares with
    one dummy per cell; two ways add up as in :func:`~shadowprice.evaluation.statistics.clusters.combined`. O(N log N).

    Raises:
        InvalidInput: the value varies within no cell, or there are too few rows or accounts.
    """
    columns = as_rows({"y": y, "value": value})
    rows = columns["y"].size
    of, groups = crossed(*cells, field="cells")
    require(of.size == rows, "cells", f"must have one entry per row, {rows}")
    ways = partitions(rows, cluster, partner, fields=("cluster", "partner"))
    owners = min(way.size for way in ways)
    response, amount = (_within(columns[name], of, groups) for name in ("y", "value"))
    spread = np.bincount(of, np.abs(amount) > 1e-9 * np.abs(columns["value"]).max(), minlength=groups)
    square = float(amount @ amount)
    require(spread.any(), "value", "does not vary within any cell; the slope cannot be told from the cells")
    require(rows > groups + 1 and owners >= 2, "cells", "too few rows, accounts or partners for a standard error")
    slope = float(amount @ response) / square
    scores = [(way.size, way.sums(amount * (response - slope * amount))) for way in ways]
    variance = combined([np.asarray(size / (size - 1) * (score @ score)) for size, score in scores])
    error = float(np.sqrt((rows - 1) / (rows - groups - 1) * variance)) / square
    informative = int(np.isin(of, np.flatnonzero(spread)).sum())
    return _slope(
        slope, error, owners - 1, level, rows=rows, cells=groups, clusters=owners, informative_rows=informative
    )


def _slope(value: float, error: float, degrees: float, level: float, **sizes: Any) -> Slope:
    quotient = value / error if error > 0 else float(np.copysign(np.inf, value))
    half = float(special.stdtrit(degrees, (1 + level) / 2)) * error
    p_value = float(2 * special.stdtr(degrees, -abs(quotient)))
    return Slope(value, error, quotient, p_value, value - half, value + half, level, **sizes)


def slope_over_windows(
    y: ArrayLike,
    value: ArrayLike,
    cells: list[ArrayLike],
    window: ArrayLike,
    *,
    cluster: ArrayLike | None = None,
    level: float = 0.95,
) -> tuple[Slope, Array]:
    """Slope within cells over windows of time, and the weight (N,) of each row in it.

    Each window has its own :func:`within_slope`. Their mean is that of
    :func:`~shadowprice.evaluation.statistics.random_effects.random_effects`: windows that disagree widen the
    interval, and so does a slope that few cells carry.

    Args:
        y: (N,) responses; value: (N,) incentive in minor units.
        cells: identifier columns (N,) that together name a cell.
        window: (N,) window of time of each row, such as its week.
        cluster: (N,) group whose rows share an error; the cell when None.
        level: of the interval.

    Errors are the jackknife's: the slope less the slope without one cluster. A window without two clusters in which
    value and response vary is left out and has weight 0. With these weights, one regression on all rows with effects
    of cell × window has the returned slope. O(N log N).

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> shop, week = rng.integers(0, 30, 6000), rng.integers(0, 5, 6000)
        >>> value = rng.integers(1, 6, 6000)
        >>> drift = np.array([-0.2, -0.1, 0.0, 0.1, 0.2])[week]
        >>> y = drift * value + 0.1 * shop + rng.normal(size=6000)
        >>> slope_over_windows(y, value, [shop], week)[0].identified
        False

    Raises:
        InvalidInput: no window is left.
    """
    columns = as_rows({"y": y, "value": value})
    rows = columns["y"].size
    cell, _ = crossed(*cells, field="cells")
    when, windows = codes(window, field="window")
    of, groups = crossed(cell, when, field="cells")
    owner, owners = (cell, int(cell.max(initial=0)) + 1) if cluster is None else codes(cluster, field="cluster")
    if not rows == cell.size == owner.size:
        raise InvalidInput(f"must have one entry per row, {rows}", field="cells" if cell.size != rows else "cluster")
    response, amount = (_within(columns[name], of, groups) for name in ("y", "value"))
    varies = np.abs(amount) > 1e-9 * np.abs(columns["value"]).max(initial=0.0)
    rises, influence, squares = [], [], {}
    for k in range(windows):
        inside = varies & (when == k)
        if not inside.any():
            continue
        square = float(amount[inside] @ amount[inside])
        rise = float(amount[inside] @ response[inside]) / square
        score = amount[inside] * (response[inside] - rise * amount[inside])
        own = np.bincount(owner[inside], amount[inside] ** 2, minlength=owners)
        count = np.count_nonzero(own)
        left_out = np.bincount(owner[inside], score, minlength=owners) / np.maximum(square - own, 1e-12 * square)
        # Two clusters that differ are the least from which an error can be estimated.
        if count >= 2 and np.count_nonzero(left_out) >= 2:
            rises.append(rise)
            influence.append(left_out * np.sqrt((count - 1) / count))
            squares[k] = square
    require(rises, "value", "does not vary within two clusters of any window, so the slope cannot be estimated")
    mean = random_effects(rises, influence, level=level)
    informative = np.isin(of, np.unique(of[varies]))
    of_window = np.zeros(windows)
    of_window[list(squares)] = mean.share / np.array(list(squares.values()))
    weight = of_window[when] * (rows / of_window[when].sum())
    slope = _slope(
        mean.value,
        mean.standard_error,
        mean.degrees,
        level,
        rows=rows,
        cells=groups,
        clusters=int(np.unique(owner[informative]).size),
        informative_rows=int(informative.sum()),
        windows=len(rises),
        between=float(np.sqrt(mean.between)),
    )
    return slope, weight


@metric
def curve_slope(response: Array, *, levels: ArrayLike) -> Statistic:
    """Mean slope of a model's curves, response per minor unit.

    ``response`` (J, N) at ``levels`` (J,) minor units, J ≥ 2: each account's least-squares line
    through its curve, averaged over accounts; to be set beside :func:`within_slope`. O(J·N).
    """
    amounts = check_levels(levels).astype(np.float64)
    if response.shape[0] != amounts.size or amounts.size < 2:
        raise InvalidInput(f"must have one entry per row of response, at least 2, got {amounts.size}", field="levels")
    centered = amounts - amounts.mean()
    return mean_of(centered @ response / (centered @ centered))


def _within(column: Array, of: np.ndarray, groups: int) -> Array:
    means = np.bincount(of, column, minlength=groups) / np.bincount(of, minlength=groups)
    return np.asarray(column - means[of])
