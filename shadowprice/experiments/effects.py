"""Difference of two arms and ratios of differences, with variances that allow for dependent rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.clusters import Clusters, combined, partitions
from shadowprice.evaluation.statistics.metric import Array, as_rows


@dataclass(frozen=True)
class Effect:
    """An estimated difference or ratio with its standard error and the interval ``[low, high]``.

    degrees  of freedom of the t distribution that the interval is made of
    """

    value: float
    error: float
    low: float
    high: float
    level: float
    degrees: int

    @property
    def p_value(self) -> float:
        """Two-sided p-value of the hypothesis that the effect is 0; NaN where there is no standard error."""
        if not self.error > 0:
            return float("nan")
        return float(2 * stats.t.sf(abs(self.value) / self.error, self.degrees))

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


@dataclass(frozen=True, eq=False)
class Contrast:
    """Value of an estimator with the influence of each row on it, (N,): their sum over independent groups is its error.

    Example:
        The mean of y over n rows has the influence (y − mean) / n.
    """

    value: float
    influence: Array

    def over(self, other: Contrast) -> Contrast:
        """Ratio of two estimators by the delta method: influence (ψ_a − r·ψ_b) / b with r = a / b."""
        ratio = self.value / other.value if other.value else float("nan")
        scale = other.value or float("nan")
        return Contrast(ratio, (self.influence - ratio * other.influence) / scale)


@dataclass(frozen=True, eq=False)
class TwoArms:
    """Rows of two arms, of which those of one unit, or of one partner, depend on each other.

    treated  bool (N,); the other rows are the baseline
    ways     partitions of the rows into dependent groups, see :func:`~shadowprice.evaluation.statistics.partitions`
    level    of the intervals

    All estimators are means per row. Assigning units and counting rows makes each a ratio of sums over units, and its
    influence is that of the delta method. The standard errors equal those of a least-squares regression on the arm with
    clusters (two-way where a partner is given), up to the factor (N − 1)/(N − 2) of small samples.

    Source: Cameron, Gelbach and Miller (2011); Deng, Knoblich and Lu (2018), Applying the delta method in metric
    analytics.
    """

    treated: NDArray[np.bool_]
    ways: tuple[Clusters, ...]
    level: float = 0.95

    @classmethod
    def of(cls, treated: ArrayLike, unit: ArrayLike, partner: ArrayLike | None = None, level: float = 0.95) -> TwoArms:
        """Read the rows of two arms.

        Args:
            treated: bool (N,).
            unit: (N,) identifier of what was assigned, whose rows depend on each other.
            partner: (N,) second identifier, crossed with the first; None: one way.
            level: of the intervals.

        Raises:
            InvalidInput: an arm without rows, an identifier that is missing, or a level outside (0, 1).
        """
        mask = np.asarray(treated, dtype=np.bool_)
        if not 0 < level < 1:
            raise InvalidInput("must lie between 0 and 1", field="level")
        if mask.all() or not mask.any():
            raise InvalidInput("needs rows of both arms", field="treated")
        return cls(mask, partitions(mask.size, unit, partner, fields=("unit", "partner")), level)

    @property
    def degrees(self) -> int:
        """The fewest groups that an arm has in any way, less one."""
        counts = [
            int(np.count_nonzero(np.bincount(way.of[arm], minlength=way.size)))
            for way in self.ways
            for arm in (self.treated, ~self.treated)
        ]
        return min(counts) - 1

    def difference(self, y: ArrayLike, covariates: ArrayLike | None = None) -> Contrast:
        """Mean of ``y`` (N,) in the treated arm less that in the baseline, per row.

        Args:
            y: outcomes.
            covariates: (p, N), quantities that the arm cannot have changed, such as those of the time before. The
                difference of their means is noise; the best multiple of it is subtracted (CUPED).

        Source: Deng, Xu, Kohavi and Walker (2013); the multiple minimises the variance between units.
        """
        plain = self._difference(as_rows({"y": y})["y"])
        if covariates is None or not len(np.asarray(covariates)):
            return plain
        rows = [self._difference(as_rows({"covariates": row})["covariates"]) for row in np.asarray(covariates)]
        sums = np.stack([self.ways[0].sums(each.influence) for each in rows])
        if 10 * len(rows) > sums.shape[1]:
            raise InvalidInput(f"must be at most a tenth of the {sums.shape[1]} units", field="covariates")
        theta = np.linalg.lstsq(sums.T, self.ways[0].sums(plain.influence), rcond=None)[0]
        return Contrast(
            plain.value - float(theta @ np.array([each.value for each in rows])),
            plain.influence - theta @ np.stack([each.influence for each in rows]),
        )

    def baseline(self, y: ArrayLike) -> Contrast:
        """Mean of ``y`` (N,) in the baseline."""
        return self.mean(as_rows({"y": y})["y"], ~self.treated)

    def effect(self, contrast: Contrast) -> Effect:
        """Effect with the standard error of dependent rows; NaN limits where an arm has a single unit."""
        degrees = self.degrees
        if degrees < 1 or not np.isfinite(contrast.value):
            nan = float("nan")
            return Effect(contrast.value, nan, nan, nan, self.level, max(degrees, 0))
        sums = [way.sums(contrast.influence) for way in self.ways]
        variance = combined([np.asarray(each.size / (each.size - 1) * (each @ each)) for each in sums])
        error = float(np.sqrt(variance))
        half = float(stats.t.ppf((1 + self.level) / 2, degrees)) * error
        return Effect(contrast.value, error, contrast.value - half, contrast.value + half, self.level, degrees)

    def _difference(self, y: Array) -> Contrast:
        if y.size != self.treated.size:
            raise InvalidInput(f"must have one entry per row, {self.treated.size}, got {y.size}", field="y")
        one, other = self.mean(y, self.treated), self.mean(y, ~self.treated)
        return Contrast(one.value - other.value, one.influence - other.influence)

    @staticmethod
    def mean(y: Array, rows: NDArray[np.bool_]) -> Contrast:
        """Mean of ``y`` (N,) over some rows."""
        size = int(np.count_nonzero(rows))
        mean = float(y[rows].mean())
        return Contrast(mean, np.where(rows, (y - mean) / size, 0.0))


def with_missing(columns: Sequence[ArrayLike]) -> Array:
    """(p, N) covariates whose missing entries became the mean, and an indicator for each column that has some.

    New accounts have no past: their rows stay in the comparison.
    """
    found: list[Array] = []
    for column in columns:
        values = np.asarray(column, dtype=np.float64)
        missing = ~np.isfinite(values)
        if missing.all():
            continue
        found.append(np.where(missing, values[~missing].mean(), values))
        if missing.any():
            found.append(missing.astype(np.float64))
    return np.stack(found) if found else np.zeros((0, 0))
