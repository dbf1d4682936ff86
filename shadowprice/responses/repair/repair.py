"""Curve repair for any response model: isotonic calibration on held-out rows, then projection on rising curves.

Calibration corrects the scale of a prediction, which multiplies money; projection takes out places where a curve falls,
which a solver would exploit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.checks import refuse_rows, require, require_one_of
from shadowprice.curves import Curves
from shadowprice.documents import Plain
from shadowprice.responses.base import at_level

Array = NDArray[np.float64]

LEAST_ROWS = 200
"""Rows below which nothing is calibrated: two bins of :data:`BIN_ROWS`."""
BIN_ROWS = 100
"""Rows that a bin has at least before bins are pooled; with fewer the map follows noise."""
MOST_BINS = 50
FOLDS = 5

Calibration = Literal["none", "pooled", "by_level"]


def pava(y: ArrayLike, weight: ArrayLike | None = None) -> Array:
    """Weighted least-squares projection of columns on non-decreasing ones: isotonic regression, float64 (J, N).

    Args:
        y: (J, N), or (J,) for one column.
        weight: positive, (J, N) or (J,) for all columns alike; ones when None.

    Columns that rise are returned bit for bit. For the others the min–max formula
    ``max_{a≤j} min_{b≥j} mean(y_a … y_b)``, which is exact and has no loop over columns: O(J²) per column.
    Source: Barlow, Bartholomew, Bremner and Brunk (1972), theorem 1.10.

    Raises:
        InvalidInput: values that are not finite, weights that are not positive or of another shape.
    """
    values = np.asarray(y, dtype=np.float64)
    if values.ndim == 1:
        return np.asarray(pava(values[:, None], None if weight is None else np.asarray(weight)[:, None])[:, 0])
    require(values.ndim == 2 and len(values), "y", f"must have shape (levels, accounts), got {values.shape}")
    refuse_rows("y", ~np.isfinite(values).all(axis=0), "must be finite")
    share = np.ones(values.shape[0]) if weight is None else np.asarray(weight, dtype=np.float64)
    shapes = (values.shape[:1], values.shape)
    require(share.shape in shapes, "weight", f"must have shape {shapes[0]} or {shapes[1]}, got {share.shape}")
    require(np.isfinite(share).all() and (share > 0).all(), "weight", "must be positive")
    out = values.copy()
    falls = np.flatnonzero((np.diff(values, axis=0) < 0).any(axis=0))
    if falls.size == 0:
        return out
    broken = values[:, falls]
    mass = np.broadcast_to(share[:, None], values.shape)[:, falls] if share.ndim == 1 else share[:, falls]
    best = np.full(broken.shape, -np.inf)
    for first in range(broken.shape[0]):
        means = np.cumsum((mass * broken)[first:], axis=0) / np.cumsum(mass[first:], axis=0)
        ahead = np.minimum.accumulate(means[::-1], axis=0)[::-1]
        np.maximum(best[first:], ahead, out=best[first:])
    # Rounding in the sums may leave a last bit that falls.
    out[:, falls] = np.maximum.accumulate(best, axis=0)
    return out


@dataclass(frozen=True, eq=False)
class IsotonicMap(Plain):
    """A rising piecewise linear map of predictions through the centers of isotonic regression's blocks.

    predicted, observed  float64 (K,): mean prediction and mean response of each block, both strictly ascending; where
                         there are several blocks, then the highest prediction and what it is mapped to
    ceiling              what a response cannot exceed: 1 for a probability, infinity for a ratio

    Levels on one stair of isotonic regression itself would tie; through the centers the map rises wherever the data
    rise (centered isotonic regression; Oron and Flournoy 2017). Beyond the outer centers it is proportional to the
    prediction, but on the highest block it rises by at most the standard error of the block's mean.
    """

    predicted: Array
    observed: Array
    ceiling: float = 1.0

    def __call__(self, p: ArrayLike) -> Array:
        """The calibrated predictions, of any shape."""
        asked = np.asarray(p, dtype=np.float64)
        inside = np.interp(asked, self.predicted, self.observed)
        first, last = self.predicted[0], self.predicted[-1]
        low = asked * (self.observed[0] / first) if first > 0 else inside
        high = self.observed[-1] + (asked - last) * (self.observed[-1] / last if last > 0 else 0.0)
        repaired = np.where(asked < first, low, np.where(asked > last, high, inside))
        return np.asarray(np.clip(repaired, 0.0, self.ceiling))

    def knots(self) -> Array:
        """(2, K): points between which the map of probabilities is linear, from 0 or the first center to 1."""
        x, y = self.predicted, self.observed
        if x[0] > 0:
            x, y = np.append(0.0, x), np.append(0.0, y)
        slope = y[-1] / x[-1] if x[-1] > 0 else 0.0
        if x[-1] < 1 and y[-1] + (1 - x[-1]) * slope > self.ceiling:
            x, y = np.append(x, x[-1] + (self.ceiling - y[-1]) / slope), np.append(y, self.ceiling)
            slope = 0.0
        if x[-1] < 1:
            x, y = np.append(x, 1.0), np.append(y, y[-1] + (1 - x[-1]) * slope)
        return np.stack([x, np.clip(y, 0.0, self.ceiling)])

    @classmethod
    def fit(cls, p: ArrayLike, y: ArrayLike, weight: ArrayLike | None = None, ceiling: float = 1.0) -> IsotonicMap:
        """Fit on rows (n,): at most 50 equally filled bins of at least 100 rows, pooled by :func:`pava`."""
        predicted, observed = (np.asarray(values, dtype=np.float64) for values in (p, y))
        share = np.ones(predicted.size) if weight is None else np.asarray(weight, dtype=np.float64)
        order = np.argsort(predicted, kind="stable")
        bins = max(1, min(MOST_BINS, predicted.size // BIN_ROWS))
        # Equal predictions must stay in one bin, whatever the order of the rows.
        edges = np.unique(predicted[order[np.arange(1, bins) * predicted.size // bins]])
        of = np.searchsorted(edges, predicted, side="right")
        mass = np.bincount(of, share, minlength=edges.size + 1)
        kept = mass > 0
        center, height = (
            np.bincount(of, share * values, minlength=mass.size)[kept] / mass[kept] for values in (predicted, observed)
        )
        fitted = pava(height, mass[kept])
        block = np.unique(fitted, return_inverse=True)[1]
        total = np.bincount(block, mass[kept])
        x, height = (np.bincount(block, mass[kept] * values) / total for values in (center, fitted))
        # Half a response where there was none: at 0 all levels would tie.
        if height[0] <= 0:
            height[0] = min(0.5 / max(total[0], 1.0), 0.5 * height[1] if height.size > 1 else 1.0)
        if height.size > 1:
            own = np.isin(of, np.flatnonzero(kept)[block == block.max()])
            error = np.sqrt(((share[own] * (observed[own] - height[-1])) ** 2).sum()) / share[own].sum()
            beyond = float(predicted.max() - x[-1])
            rise = min(float(error), beyond * height[-1] / x[-1])
            if beyond > 0 and rise > 0:
                x, height = np.append(x, x[-1] + beyond), np.append(height, height[-1] + rise)
        return cls(x, height, ceiling)


@dataclass(frozen=True, eq=False)
class Repair(Plain):
    """Change of a model's curves before any allocation; by default none.

    maps      one map for all levels, one per level (None where a level is left as it is), or none
    project   whether curves are projected on rising ones, last
    weight    (J,) trust in each level when they are projected, such as its rows; equal when None
    notes     what was found when it was fitted
    """

    maps: Sequence[IsotonicMap | None] = ()
    project: bool = False
    weight: Array | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_identity(self) -> bool:
        """Return whether every curve stays as it is."""
        return not self.project and not any(self.maps)

    def apply(self, curves: Curves) -> Curves:
        """The repaired curves. O(J²) per account whose curve falls somewhere, O(J log K) for the others."""
        if self.is_identity:
            return curves
        response = curves.response.astype(np.float64)
        if len(self.maps) == 1 and self.maps[0] is not None:
            response = self.maps[0](response)
        elif self.maps:
            count, size = len(self.maps), curves.levels.size
            require(count == size, "repair", f"was fitted on {count} levels, the curves have {size}")
            response = np.stack([r if m is None else m(r) for m, r in zip(self.maps, response, strict=True)])
        if self.project:
            response = pava(response, self.weight)
        return Curves(curves.levels, response.astype(np.float32))

    def knots(self) -> Array:
        """(M, 2, K): :meth:`IsotonicMap.knots` of each map, the last point repeated; empty without maps."""
        own = [np.array([[0.0, 1.0]] * 2) if each is None else each.knots() for each in self.maps]
        most = max((each.shape[1] for each in own), default=0)
        alike = [np.pad(each, ((0, 0), (0, most - each.shape[1])), "edge") for each in own]
        return np.array(alike).reshape(len(own), 2, most)

    @classmethod
    def fit(
        cls,
        curves: Curves,
        level: ArrayLike,
        y: ArrayLike,
        *,
        calibration: Calibration = "none",
        project: bool = True,
        account: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        ceiling: float = 1.0,
    ) -> Self:
        """Fit on held-out labeled rows, best those of a randomized trial.

        Args:
            curves: the model's, of the n rows.
            level: (n,) index of the level given; y: (n,) response.
            calibration: ``pooled``: one map for all levels, which keeps a rising curve rising; ``by_level``: a map for
                each level of at least 200 rows, for rows whose level was randomized or weighted as if it had been.
            project: whether to project on rising curves, last.
            account: (n,) names each row's account; folds are by account.
            weight: (n,), such as 1 / propensity.
            ceiling: what a response cannot exceed.

        A map is kept only if it lowers the squared error of rows that it was not fitted on, over five folds by account,
        by more than one standard error. ``notes`` tells what was found.
        """
        index, observed = np.asarray(level), np.asarray(y, dtype=np.float64)
        rows = index.size
        alike = curves.accounts == rows and observed.shape == (rows,)
        require(alike, "curves", f"needs one curve, level and response per row, got {curves.accounts}")
        share = np.ones(rows) if weight is None else np.asarray(weight, dtype=np.float64)
        counts = np.bincount(index, share, minlength=curves.levels.size)
        trust = np.maximum(counts, 1.0) / max(float(counts.max(initial=1.0)), 1.0)
        require_one_of(calibration, get_args(Calibration), "calibration")
        notes: dict[str, Any] = {"calibration": calibration, "rows": rows}
        maps: tuple[IsotonicMap | None, ...] = ()
        if calibration != "none" and rows >= LEAST_ROWS:
            p = at_level(curves, index)

            def fitted(inside: NDArray[np.bool_]) -> tuple[IsotonicMap | None, ...]:
                pooled = IsotonicMap.fit(p[inside], observed[inside], share[inside], ceiling)
                if calibration == "pooled":
                    return (pooled,)
                own: list[IsotonicMap | None] = []
                for j in range(curves.levels.size):
                    at = inside & (index == j)
                    enough = np.count_nonzero(at) >= LEAST_ROWS
                    own.append(IsotonicMap.fit(p[at], observed[at], share[at], ceiling) if enough else pooled)
                return tuple(own)

            gain, error = _held_out_gain(p, observed, index, share, account, fitted)
            notes |= {"gain": gain, "standard_error": error, "kept": gain > error}
            maps = fitted(np.ones(rows, dtype=bool)) if gain > error else ()
        return cls(maps, project, trust if project else None, notes)


def _held_out_gain(
    p: Array, y: Array, index: NDArray[Any], share: Array, account: ArrayLike | None, fitted: Any
) -> tuple[float, float]:
    """Mean squared error taken off rows of folds that a map was not fitted on, and its standard error by account."""
    names = np.arange(p.size) if account is None else np.asarray(account)
    of = np.unique(names, return_inverse=True)[1]
    accounts = int(of.max()) + 1
    fold = np.random.default_rng(0).permutation(accounts)[of] % FOLDS
    after = p.copy()
    for k in range(FOLDS):
        held, inside = fold == k, fold != k
        if not held.any() or not inside.any():
            continue
        maps = fitted(inside)
        for j in np.unique(index[held]):
            at = held & (index == j)
            one = maps[0] if len(maps) == 1 else maps[j]
            after[at] = p[at] if one is None else one(p[at])
    gain = share * ((p - y) ** 2 - (after - y) ** 2) / share.sum()
    by_account = np.bincount(of, gain)
    return float(gain.sum()), float(by_account.std() * np.sqrt(accounts))
