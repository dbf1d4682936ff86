"""Surrogate index: a late outcome predicted from early ones, and the effect of levels on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.clusters import partitions
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.statistics.level_means import LevelMeans

Array = NDArray[np.float64]

KNOTS = (0.5, 0.9)
"""Quantiles of the positive values of an early outcome at which its slope may change."""
ROWS_PER_COLUMN = 5
SINGULAR = 1e-10


@dataclass(frozen=True, eq=False)
class SurrogateIndex:
    """Least-squares fit of E[late | early outcomes, features], which is linear between knots.

    The level is no input: the effect of a level on the index is its effect on the late outcome where the level changes
    the late outcome by the early ones alone (surrogacy), and where early and late outcomes go together as they did in
    the rows that were learned from (comparability). Neither follows from the data; :meth:`difference` checks the first
    on the learned rows.

    knots         early outcome by early outcome, where its slope may change
    scale         (K,), largest absolute value of each early outcome
    coefficients  (P,), and ``covariance`` (P, P) of these by accounts
    rows          number of rows learned from; accounts likewise
    explained     share of the variance of the late outcome that the index explains

    Source: Athey, Chetty, Imbens and Kang (2019), The surrogate index; Prentice (1989).
    """

    knots: tuple[Array, ...]
    scale: Array
    coefficients: Array
    covariance: Array
    rows: int
    accounts: int
    explained: float

    @classmethod
    def fit(cls, early: Array, late: Array, *, features: Array | None = None, account: ArrayLike) -> SurrogateIndex:
        """Learn from rows whose late outcome is known. O(N·P²).

        Args:
            early: (N, K) early outcomes, such as whether there was a response, and its amount.
            late: (N,) late outcome.
            features: (N, F) known before the decision; what differs between accounts in both outcomes belongs here.
            account: (N,) identifiers; rows of one account depend on each other.

        Raises:
            InvalidInput: a value is not finite, or there are too few rows.

        >>> early = np.array([[0.0], [1.0], [0.0], [1.0], [1.0], [0.0], [1.0], [0.0], [0.0], [1.0]])
        >>> index = SurrogateIndex.fit(early, 3 + 2 * early[:, 0], account=np.arange(10))
        >>> index.predict(np.array([[1.0]])).round(6).tolist()
        [5.0]
        """
        for name, values in (("early", early.T), ("late", late)):
            InvalidInput.refuse_rows(~np.isfinite(values), "must be finite", field=name)
        knots = tuple(_knots(column) for column in early.T)
        scale = np.maximum(np.abs(early).max(axis=0, initial=0.0), 1e-300)
        design = _basis(early, features, knots, scale)
        rows, columns = design.shape
        if rows < ROWS_PER_COLUMN * columns:
            raise InvalidInput(
                f"has {rows} rows with a known value, and the index needs {ROWS_PER_COLUMN * columns}; wait until more "
                "of them are mature, or name fewer early outcomes",
                field="late",
            )
        inverse = np.linalg.pinv(design.T @ design, rcond=SINGULAR, hermitian=True)
        coefficients = inverse @ (design.T @ late)
        residual = late - design @ coefficients
        (way,) = partitions(rows, account, fields=("account", "partner"))
        scores = np.stack([way.sums(column * residual) for column in design.T], axis=1)
        covariance = inverse @ (scores.T @ scores) @ inverse * way.size / max(way.size - 1, 1)
        spread = float(np.square(late - late.mean()).sum())
        explained = 1 - float(residual @ residual) / spread if spread > 0 else 0.0
        return cls(knots, scale, coefficients, covariance, rows, way.size, explained)

    def predict(self, early: Array, features: Array | None = None) -> Array:
        """Return the index (N,), in units of the late outcome."""
        return np.asarray(_basis(early, features, self.knots, self.scale) @ self.coefficients)

    def covariance_of(self, sums: Array, early: Array, features: Array | None = None) -> Array:
        """Return the covariance (S, S) that the error of the index gives to sums of it over rows.

        Args:
            sums: (S, N), weights of each sum.
            early, features: (N, K) and (N, F), as learned.
        """
        moved = sums @ _basis(early, features, self.knots, self.scale)
        return np.asarray(moved @ self.covariance @ moved.T)

    def effects(
        self,
        early: Array,
        level: NDArray[np.int64],
        levels: int,
        *,
        features: Array | None = None,
        weight: ArrayLike | None = None,
        account: ArrayLike | None = None,
    ) -> tuple[Estimate, ...]:
        """Effect (J − 1) of each level over the lowest on the late outcome of a request, by the index.

        The intervals add the error of the index to that of the means: given the early outcomes the two are independent.

        Args:
            early, features: (N, K) and (N, F), as learned.
            level: (N,) index of the level given, randomized given ``weight``; each of the ``levels`` has rows.
            weight: (N,), such as the inverse of the propensity.
            account: (N,) identifiers.
        """
        design = _basis(early, features, self.knots, self.scale)
        means = LevelMeans(level, levels, weight=weight, account=account)
        index = means.of(design @ self.coefficients)
        moments = np.stack([np.bincount(level, means.weight * column, levels) for column in design.T]) / means.total
        found = []
        for given in range(1, levels):
            contrast = np.eye(levels)[given] - np.eye(levels)[0]
            change = moments @ contrast
            error = np.sqrt(index.variance(contrast) + change @ self.covariance @ change)
            half = float(error * special.stdtrit(min(index.degrees(contrast), max(self.accounts - 1, 1)), 0.975))
            value = index.at(contrast)
            found.append(Estimate(value, value - half, value + half))
        return tuple(found)

    def difference(
        self, early: Array, late: Array, level: NDArray[np.int64], *, features: Array | None = None, account: ArrayLike
    ) -> float | None:
        """Return the p-value that the level changes the late outcome beyond the early ones (Prentice's criterion).

        A score test on the rows that were learned from: levels, with the index held fixed, against its residuals. A
        small value shows that surrogacy fails or that the index has the wrong form; a large one proves neither.
        None where they have one level.
        """
        given = np.unique(level)
        if given.size < 2:
            return None
        design = _basis(early, features, self.knots, self.scale)
        shown = (level[:, None] == given[1:]).astype(np.float64)
        inverse = np.linalg.pinv(design.T @ design, rcond=SINGULAR, hermitian=True)
        shown -= design @ (inverse @ (design.T @ shown))
        (way,) = partitions(level.size, account, fields=("account", "partner"))
        residual = late - design @ self.coefficients
        scores = np.stack([way.sums(column * residual) for column in shown.T], axis=1)
        total, meat = scores.sum(axis=0), scores.T @ scores
        rank = int(np.linalg.matrix_rank(meat, hermitian=True))
        free = way.size - design.shape[1]
        if not rank or free < 1:
            return None
        statistic = float(total @ np.linalg.pinv(meat, rcond=SINGULAR, hermitian=True) @ total)
        return float(special.fdtrc(rank, free, max(statistic, 0.0) / rank * free / way.size))


def _knots(column: Array) -> Array:
    positive = column[column > 0]
    if np.unique(column).size < 5 or not positive.size:
        return np.empty(0)
    knots = np.unique(np.quantile(positive, KNOTS))
    return np.asarray(knots[knots < column.max()])


def _basis(early: Array, features: Array | None, knots: tuple[Array, ...], scale: Array) -> Array:
    """(N, P): a constant, the early outcomes with their parts above each knot, and the features."""
    columns = [np.ones(len(early))]
    for column, own, unit in zip(early.T, knots, scale, strict=True):
        columns += [column / unit, *(np.maximum(column - knot, 0.0) / unit for knot in own)]
    return np.asarray(np.column_stack([*columns, *([] if features is None else [features])]), dtype=np.float64)
