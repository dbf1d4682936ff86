"""Means of rows by the level that they were given, and the variance of any contrast of them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse, special

from shadowprice.evaluation.statistics.clusters import Clusters, combined, partitions
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.statistics.metric import Array, as_rows, as_weights


@dataclass(frozen=True, eq=False)
class Means:
    """Weighted means of K measures at J levels, jointly.

    value     (K, J); NaN at a level without rows
    products  one (K·J, K·J) per partition of the rows in clusters: the sandwich covariance of the means
    added     (K·J,), variance that rare responses add, see :meth:`LevelMeans.of`
    groups    (J,), clusters with a row at the level; the fewest of the partitions
    clusters  of all levels; the fewest of the partitions

    A contrast is a vector (K·J,) of coefficients, measure by measure.
    """

    value: Array
    products: tuple[Array, ...]
    added: Array
    groups: NDArray[np.int64]
    clusters: int

    def contrast(self, coefficients: ArrayLike, measure: int = 0) -> Array:
        """Return the contrast with these coefficients (J,) of one measure."""
        weights = np.zeros_like(self.value)
        weights[measure] = coefficients
        return weights.ravel()

    def at(self, contrast: Array) -> float:
        """Value of a contrast; levels without rows must have the coefficient 0."""
        used = contrast != 0
        return float(contrast[used] @ self.value.ravel()[used])

    def variance(self, contrast: Array) -> float:
        """Variance of a contrast; NaN where a level has rows of one cluster only."""
        used = contrast != 0
        own = contrast[used]
        parts = [np.asarray(own @ product[np.ix_(used, used)] @ own) for product in self.products]
        return float(combined(parts)) + float(own**2 @ self.added[used])

    def covariance(self, first: Array, second: Array) -> float:
        """Covariance of two contrasts."""
        one, other = self.variance(first), self.variance(second)
        if not (one > 0 and other > 0):
            return 0.0
        # Both are scaled alike, because money and responses differ by orders of magnitude.
        scale = np.sqrt(other / one)
        value = (self.variance(scale * first + second) - 2 * other) / (2 * scale)
        return float(np.clip(value, -np.sqrt(one * other), np.sqrt(one * other)))

    def degrees(self, contrast: Array) -> float:
        """Degrees of freedom of a contrast of one measure (Welch and Satterthwaite), at most the clusters less 1."""
        levels = np.abs(contrast).reshape(self.value.shape).sum(axis=0) > 0
        place = np.flatnonzero(contrast)
        share = np.array([self.variance(np.eye(contrast.size)[k] * contrast[k]) for k in place])
        if not share.sum() > 0:
            return float(max(self.groups[levels].min(initial=2) - 1, 1))
        free = np.maximum(self.groups[place % self.groups.size] - 1, 1)
        return float(min(share.sum() ** 2 / (share**2 / free).sum(), max(self.clusters - 1, 1)))

    def estimate(self, contrast: Array, level: float = 0.95) -> Estimate:
        """Value of a contrast of one measure with its t interval."""
        value, error = self.at(contrast), np.sqrt(self.variance(contrast))
        half = float(special.stdtrit(self.degrees(contrast), (1 + level) / 2) * error)
        return Estimate(value, value - half, value + half, level)

    def p_value(self, contrast: Array) -> float:
        """Two-sided p-value of the test that a contrast of one measure is 0; 1 where nothing varies."""
        error = np.sqrt(self.variance(contrast))
        if not error > 0:
            return 1.0
        return float(2 * special.stdtr(self.degrees(contrast), -abs(self.at(contrast)) / error))


class LevelMeans:
    """Rows that were given one of J levels, whose measures are averaged by level.

    Weighted means are Hájek's: Σ w·y / Σ w of the rows of a level. With w = 1 / propensity they estimate the mean that
    all rows would have at the level. A cluster's part of the error of a mean is the sum of its w·(y − mean) / Σ w over
    √(1 − share of the cluster in Σ w): for equal weights and clusters of one row its square adds up to s²/n, so a
    difference of two levels has the variance of Welch's test. Two ways of clusters add up as in
    :func:`~shadowprice.evaluation.statistics.clusters.combined`.

    Args:
        level: (N,) index of the level of each row.
        levels: J.
        weight: (N,), default ones.
        account, partner: (N,) identifiers of the clusters; each row by itself without accounts.

    Complexity: O(N log N) once, then O(N) for a measure.
    Source: Liang and Zeger (1986); Bell and McCaffrey (2002) for the small-sample correction.
    """

    def __init__(
        self,
        level: ArrayLike,
        levels: int,
        *,
        weight: ArrayLike | None = None,
        account: ArrayLike | None = None,
        partner: ArrayLike | None = None,
    ) -> None:
        self.level, self.levels = np.asarray(level, dtype=np.int64), levels
        self.account, self.partner = account, partner
        self.weight = as_weights(weight, self.level.size)
        self.total = np.bincount(self.level, self.weight, minlength=levels)
        square = np.bincount(self.level, self.weight**2, minlength=levels)
        self.effective = np.divide(self.total**2, square, out=np.zeros(levels), where=square > 0)
        ways = partitions(self.level.size, account, partner, fields=("account", "partner"))
        self._cells = [_Cells(way, self) for way in ways]
        self.clusters = min(way.size for way in ways)
        self.groups = np.min([cell.groups for cell in self._cells], axis=0)

    def of(self, *measures: ArrayLike) -> Means:
        """Average measures, (N,) each.

        The variance of a share is at least that of Wilson's center, (n·p + z²/2) / (n + z²): where a handful responded,
        or nobody, the rows alone would claim too short an interval.
        """
        columns = [as_rows({"measure": measure})["measure"] for measure in measures]
        sums = [np.bincount(self.level, self.weight * column, minlength=self.levels) for column in columns]
        total = np.where(self.total > 0, self.total, np.nan)
        value = np.array(sums) / total
        residuals = [self.weight * (column - mean[self.level]) for column, mean in zip(columns, value, strict=True)]
        products = tuple(cell.product(residuals) for cell in self._cells)
        own = combined([np.diagonal(product) for product in products]).reshape(value.shape)
        added = np.array(
            [
                self._added(mean, variance) if np.isin(column, (0.0, 1.0)).all() else np.zeros(self.levels)
                for column, mean, variance in zip(columns, value, own, strict=True)
            ]
        )
        return Means(value, products, added.ravel(), self.groups, self.clusters)

    def _added(self, share: Array, variance: Array) -> Array:
        spread = share * (1 - share)
        rows = np.divide(spread, variance, out=self.effective.copy(), where=variance > 0)
        square = float(special.ndtri(0.975)) ** 2
        center = np.divide(rows * share + square / 2, rows + square)
        least = np.divide(center * (1 - center), rows, out=np.zeros_like(rows), where=rows > 0)
        return np.asarray(np.nan_to_num(np.maximum(least - variance, 0.0)))


class _Cells:
    """Rows of one cluster at one level, added up together."""

    def __init__(self, clusters: Clusters, rows: LevelMeans) -> None:
        self.size, self.levels = clusters.size, rows.levels
        cell, self.place = np.unique(clusters.of * rows.levels + rows.level, return_inverse=True)
        self.cluster, self.level = cell // rows.levels, cell % rows.levels
        self.groups = np.bincount(self.level, minlength=rows.levels)
        share = np.bincount(self.place, rows.weight) / rows.total[self.level]
        left = np.sqrt(np.maximum(1 - share, 0.0))
        scale = np.full(left.size, np.nan)
        # The rows of a single cluster say nothing of their mean's error.
        np.divide(1.0, left, out=scale, where=self.groups[self.level] > 1)
        self.scale = scale / rows.total[self.level]

    def product(self, residuals: list[Array]) -> Array:
        """Return the covariance (K·J, K·J) of the means by these clusters."""
        scores = [np.bincount(self.place, residual) * self.scale for residual in residuals]
        columns = [self.level + k * self.levels for k in range(len(scores))]
        at = (np.tile(self.cluster, len(scores)), np.concatenate(columns))
        shape = (self.size, len(scores) * self.levels)
        matrix = sparse.csr_array((np.concatenate(scores), at), shape=shape)
        return np.asarray((matrix.T @ matrix).toarray(), dtype=np.float64)
