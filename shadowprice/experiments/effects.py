"""Contrasts of means of cells and their ratios, with variances that allow for dependent rows and few units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from shadowprice.checks import require
from shadowprice.evaluation.statistics.clusters import Clusters, combined, partitions
from shadowprice.evaluation.statistics.fieller import fieller
from shadowprice.evaluation.statistics.metric import Array, as_rows

DIFFERENCE = (-1.0, 1.0)
"""Coefficients of the treated cell, 1, less the baseline, 0."""


@dataclass(frozen=True)
class Effect:
    """An estimated difference or ratio with its standard error and the interval ``[low, high]``.

    error    of a ratio: by the delta method; its interval is Fieller's, infinite where the denominator may be 0
    degrees  of freedom of the t distribution that the interval is made of
    p_value  two-sided, of the hypothesis that the effect is 0; NaN where there is no standard error
    """

    value: float
    error: float
    low: float
    high: float
    level: float
    degrees: float
    p_value: float

    def times(self, factor: float) -> Effect:
        """Return the effect in another unit, or of so many accounts; ``factor`` is positive."""
        parts = {name: factor * getattr(self, name) for name in ("value", "error", "low", "high")}
        return replace(self, **parts)

    def widened(self, variance: float) -> Effect:
        """Return the effect with a further, independent error of this variance; a ratio that has no limits stays."""
        if not self.error > 0:
            return self
        error = float(np.hypot(self.error, np.sqrt(variance)))
        low, high = (self.value + (end - self.value) * error / self.error for end in (self.low, self.high))
        p_value = min(1.0, max(self.p_value, float(2 * special.stdtr(self.degrees, -abs(self.value) / error))))
        return replace(self, error=error, low=low, high=high, p_value=p_value)

    def told(self, zero: str = "its denominator is 0", form: str = ".4g") -> str:
        """Return value and interval as text, or the reason why there is none.

        Args:
            zero: reason of a ratio whose denominator is 0.
            form: format of each number.

        >>> nan = float("nan")
        >>> Effect(nan, nan, nan, nan, 0.95, 5.0, nan).told("nothing was paid")
        'not known: nothing was paid'
        """
        few = "an arm has too few units"
        if not np.isfinite(self.value):
            return f"not known: {zero if self.degrees > 0 else few}"
        if np.isfinite([self.low, self.high]).all():
            return f"{self.value:{form}} [{self.low:{form}}, {self.high:{form}}]"
        return f"{self.value:{form}} [{'no limits' if self.degrees > 0 else f'no interval: {few}'}]"

    def __str__(self) -> str:
        return self.told()


@dataclass(frozen=True, eq=False)
class Contrast:
    """Value of an estimator with the influence of each row on it, (N,): their sum over independent groups is its error.

    spent  degrees of freedom that covariates took
    """

    value: float
    influence: Array
    spent: int = 0


@dataclass(frozen=True, eq=False)
class Cells:
    """N rows in C cells, such as an arm in a period; rows of one unit, or of one partner, depend on each other.

    cell    (N,), cell of each row
    ways    partitions of the rows into dependent groups, see :func:`~shadowprice.evaluation.statistics.partitions`;
            the first is by unit
    arm     (C,), arm of each cell: cells of one arm share units
    weight  (N,), part of each row in the size of its cell
    visits  (N,), 1 for a request whose unit has another row with −1 for it; 0 otherwise
    size    (C,), denominators of the means
    level   of the intervals

    The mean of cell c is Σ y / size, and row i has the influence (y_i − r_c·visits_i − mean_c·weight_i) / size_c with
    the mean r_c of a request: the number of requests varies with the unit, and the response beyond it with the partner.
    With a weight of 1 and no visits this is a mean per row. Where the size of a cell is more than its weights, as where
    it follows from a share, the missing rows are zeros and the influence of a row is not centered.

    The influence of unit g is divided by √(1 − h_g), its part h_g in the size of the cell (CR2): the variance of an
    estimate from few or unequal units is then not too small. The degrees of freedom are Welch's over the arms, each
    with 1/Σh_g² − 1.

    Source: Cameron, Gelbach and Miller (2011), two ways; Bell and McCaffrey (2002), CR2; Carter, Schnepel and
    Steigerwald (2017), effective number of clusters; Deng, Knoblich and Lu (2018), ratio metrics.
    """

    cell: NDArray[np.intp]
    ways: tuple[Clusters, ...]
    arm: NDArray[np.intp]
    weight: Array
    visits: Array
    size: Array
    level: float = 0.95

    @classmethod
    def of(cls, cell: ArrayLike, unit: ArrayLike, partner: ArrayLike | None = None, *, level: float = 0.95) -> Cells:
        """Read rows of cells 0 … C − 1, each of an arm of its own, for means per row.

        Args:
            cell: (N,), such as 1 in the treated arm and 0 in the baseline.
            unit: (N,) identifier of what was assigned, whose rows depend on each other.
            partner: (N,) second identifier, crossed with the first; None: one way.
            level: of the intervals.

        Raises:
            InvalidInput: a cell without rows, an identifier that is missing, or a level outside (0, 1).

        Example:
            >>> two = Cells.of([0, 0, 1, 1], ["a", "b", "c", "d"])
            >>> two.effect(two.contrast([0.0, 1.0, 2.0, 1.0])).value
            1.0
        """
        of = np.asarray(cell).astype(np.intp)
        size = np.bincount(of).astype(np.float64)
        require(size.size >= 2 and size.all(), "cell", "needs rows of both arms, or of every cell")
        ways = partitions(of.size, unit, partner, fields=("unit", "partner"))
        return cls(of, ways, np.arange(size.size), np.ones(of.size), np.zeros(of.size), size, level)

    def __post_init__(self) -> None:
        require(0 < self.level < 1, "level", "must lie between 0 and 1")

    @cached_property
    def _parts(self) -> tuple[NDArray[np.intp], Array]:
        """Place of each row in a table of units and cells, and the part of each unit in each cell, (units, C)."""
        cells = self.size.size
        place = self.ways[0].of * cells + self.cell
        shares = np.bincount(place, self.weight, minlength=self.ways[0].size * cells).reshape(-1, cells) / self.size
        return place, shares

    @cached_property
    def _spread(self) -> Array:
        """Factor of each row that makes up for the mean that its unit takes part in, (N,)."""
        place, shares = self._parts
        left = 1.0 - shares.ravel()[place]
        # A cell with a single unit has no residual.
        return 1.0 / np.sqrt(np.where(left > 1e-9, left, 1.0))

    @cached_property
    def _units(self) -> Array:
        """Effective number of units of each arm, less one; 0 for a single unit."""
        place, shares = self._parts
        if not self.weight.any():
            seen = np.bincount(place, self.visits > 0, minlength=shares.size).reshape(shares.shape)
            shares = np.minimum(seen, 1.0)
        sizes = []
        for arm in range(int(self.arm.max()) + 1):
            part = shares[:, self.arm == arm].sum(axis=1)
            part = part[part > 0] / max(part.sum(), 1e-300)
            sizes.append(max(1.0 / float(part @ part) - 1.0, 1.0) if part.size > 1 else 0.0)
        return np.array(sizes)

    def contrast(self, y: ArrayLike, coefficients: ArrayLike = DIFFERENCE) -> Contrast:
        """Sum of the cells' means of ``y`` (N,), each times its coefficient (C,). O(N)."""
        values = as_rows({"y": y})["y"]
        require(values.size == self.cell.size, "y", f"must have one entry per row, {self.cell.size}, got {values.size}")
        asked = self.visits > 0
        mean = self._sum(values) / self.size
        rate = self._sum(np.where(asked, values, 0.0)) / np.maximum(self._sum(asked.astype(np.float64)), 1.0)
        by_cell = np.asarray(coefficients, dtype=np.float64)
        own = values - rate[self.cell] * self.visits - mean[self.cell] * self.weight
        return Contrast(float(by_cell @ mean), (by_cell / self.size)[self.cell] * own * self._spread)

    def variances(self, contrasts: Sequence[Contrast]) -> list[Array]:
        """Covariances (K, K) of K contrasts in each way of the rows."""
        matrices = []
        for number, way in enumerate(self.ways):
            sums = np.stack([way.sums(contrast.influence) for contrast in contrasts])
            factor = way.size / max(way.size - 1, 1) if number else 1.0
            matrices.append(factor * (sums @ sums.T))
        return matrices

    def degrees(self, contrast: Contrast) -> float:
        """Degrees of freedom of a contrast: Welch's over the arms, and fewer than the partners of any arm."""
        arms = self.arm[self.cell]
        sums = [self.ways[0].sums(np.where(arms == arm, contrast.influence, 0.0)) for arm in range(self._units.size)]
        parts = np.array([float(one @ one) for one in sums])
        used = parts > 0
        if not self._units[used].all() or not self._units.all():
            return 0.0
        freedom = float(parts.sum() ** 2 / (parts[used] ** 2 @ (1.0 / self._units[used]))) if used.any() else np.inf
        for way in self.ways[1:2]:
            requests = self.visits >= 0
            counts = [
                np.count_nonzero(np.bincount(way.of[requests & (arms == arm)])) for arm in range(self._units.size)
            ]
            freedom = min(freedom, float(min(counts)) - 1.0)
        return max(min(freedom, float(self._units.sum())) - contrast.spent, 0.0)

    def effect(self, contrast: Contrast) -> Effect:
        """Effect with the standard error of dependent rows; NaN limits where an arm has a single unit."""
        degrees, nan = self.degrees(contrast), float("nan")
        if not degrees > 0 or not np.isfinite(contrast.value):
            return Effect(contrast.value, nan, nan, nan, self.level, degrees, nan)
        error = float(np.sqrt(combined(self.variances([contrast]))[0, 0]))
        half = float(special.stdtrit(degrees, (1 + self.level) / 2)) * error
        p_value = float(2 * special.stdtr(degrees, -abs(contrast.value) / error)) if error > 0 else nan
        return Effect(contrast.value, error, contrast.value - half, contrast.value + half, self.level, degrees, p_value)

    def ratio(self, numerator: Contrast, denominator: Contrast) -> Effect:
        """Ratio of two contrasts with Fieller's interval; its hypothesis of 0 is that of the numerator."""
        top, nan = self.effect(numerator), float("nan")
        if not denominator.value or not top.degrees > 0:
            return Effect(nan, nan, nan, nan, self.level, top.degrees, nan)
        value = numerator.value / denominator.value
        line = (numerator.influence - value * denominator.influence) / denominator.value
        delta = self.effect(Contrast(value, line, numerator.spent))
        parts = self.variances([numerator, denominator])
        first, second = np.diagonal(combined(parts))
        mixed = parts[0][0, 1] if len(parts) == 1 else parts[0][0, 1] + parts[1][0, 1] - parts[2][0, 1]
        bound = float(np.sqrt(first * second))
        bounds = fieller(
            numerator.value,
            denominator.value,
            (float(first), float(second)),
            float(np.clip(mixed, -bound, bound)),
            level=self.level,
            degrees=delta.degrees,
        )
        low, high = (-np.inf, np.inf) if bounds is None else (bounds.low, bounds.high)
        return Effect(value, delta.error, low, high, self.level, delta.degrees, top.p_value)

    def _sum(self, values: Array) -> Array:
        return np.bincount(self.cell, values, minlength=self.size.size).astype(np.float64, copy=False)
