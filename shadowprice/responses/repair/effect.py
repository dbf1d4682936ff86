"""The effect of the incentive apart from the reasons for giving it: steps within cells, for any model.

The effect is estimated only from how the level given differs from what such a request is usually given.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from shadowprice.checks import require
from shadowprice.curves import Curves
from shadowprice.documents import Plain
from shadowprice.responses.arrays import sigmoid

Array = NDArray[np.float64]

PSEUDO_ROWS = 1.0
"""Rows of the coarser cell that are mixed into a finer one's shares."""
SEPARATOR = "\x1f"
EDGE = 1e-6
"""Probabilities are kept this far from 0 and 1 before their logit is taken."""
TWO_SIDED_5_PERCENT = 1.96
STEPS = 100


@dataclass(frozen=True)
class UsualLevels(Plain):
    """Shares of the J levels among the requests of a cell; finer cells borrow from coarser ones.

    columns  of the request that together name a cell, the most general first
    tables   one per number of columns used, from none: cell → shares of the levels, (J,)
    """

    columns: tuple[str, ...]
    tables: tuple[Mapping[str, Sequence[float]], ...]

    def __call__(self, frame: pd.DataFrame) -> Array:
        """Shares (J, N); a cell that was not seen has those of the coarser cell around it. O(N·J)."""
        out = np.tile(np.array(self.tables[0][""])[:, None], len(frame))
        for depth in range(1, len(self.columns) + 1):
            table = self.tables[depth]
            codes, names = pd.factorize(cell_names(frame, self.columns[:depth]))
            known = np.array([name in table for name in names], dtype=bool)
            shares = np.array([table.get(name, self.tables[0][""]) for name in names]).reshape(len(names), -1)
            rows = known[codes]
            out[:, rows] = shares[codes[rows]].T
        return out

    @classmethod
    def fit(cls, frame: pd.DataFrame, level: ArrayLike, levels: int, columns: Sequence[str]) -> Self:
        """Fit on rows (n,) that were given ``level`` (n,), an index below ``levels``."""
        assigned = np.asarray(level)
        missing = [name for name in columns if name not in frame]
        require(not missing, "".join(missing[:1]), "is missing from the rows whose usual level is asked for")
        share = np.bincount(assigned, minlength=levels) / assigned.size
        tables: list[Mapping[str, Sequence[float]]] = [{"": share.tolist()}]
        around = np.tile(share, (assigned.size, 1))
        for depth in range(1, len(columns) + 1):
            codes, names = pd.factorize(cell_names(frame, columns[:depth]), sort=True)
            counts = np.zeros((len(names), levels))
            np.add.at(counts, (codes, assigned), 1.0)
            first = np.unique(codes, return_index=True)[1]
            shares = (counts + PSEUDO_ROWS * around[first]) / (counts.sum(axis=1, keepdims=True) + PSEUDO_ROWS)
            tables.append(dict(zip(map(str, names), np.round(shares, 7).tolist(), strict=True)))
            around = shares[codes]
        return cls(tuple(columns), tuple(tables))


@dataclass(frozen=True, eq=False)
class Effect(Plain):
    """A rising effect of the level around the model's prediction at the usual level.

    height          δ (J,), non-decreasing from 0: logits for probabilities, the response itself for ratios
    standard_error  (J,) of each step δ_j − δ_{j−1}, clustered; 0 where there is none
    probability     whether the response is a probability

    logit f'_j = a + δ_j − Σ π·δ with the anchor a = Σ π_i·logit f_i, the model's prediction at the levels π that are
    usual in the cell. The model's own slope is replaced: within a cell it reads the reasons for the level too. Where
    one level is always given, f' at that level is the model's prediction. ``height`` 0 gives flat curves.
    """

    height: Array
    standard_error: Array
    probability: bool = True

    @classmethod
    def none(cls, levels: int, *, probability: bool = True) -> Self:
        """No effect: curves of ``levels`` levels become flat at the anchor."""
        return cls(np.zeros(levels), np.zeros(levels), probability)

    def apply(self, curves: Curves, usual: ArrayLike) -> Curves:
        """Curves with the effect, given the shares (J, N) of the levels that are usual for each row."""
        shares = np.asarray(usual, dtype=np.float64)
        moved = anchor(curves, shares, self.probability) + self.height[:, None] - self.height @ shares
        moved = sigmoid(moved) if self.probability else np.maximum(moved, 0.0)
        return Curves(curves.levels, moved.astype(np.float32))

    @classmethod
    def fit(
        cls,
        curves: Curves,
        level: ArrayLike,
        y: ArrayLike,
        usual: ArrayLike,
        *,
        cluster: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        probability: bool = True,
    ) -> Self:
        """Fit steps θ_k ≥ 0 between levels, by the moments Σ z_k · (y − f') = 0.

        Args:
            curves: the model's, of the n rows.
            level: (n,) index of the level given; y: (n,) response; usual: (J, n) usual shares of the levels.
            cluster: (n,) group whose rows share an error, such as the cell; each row by itself when None.
            weight: (n,).
            probability: whether ``y`` is 0 or 1.

        z_k = 1[level ≥ k] − P(level ≥ k | cell) has mean 0 in a cell: the moments are orthogonal (Robinson 1988;
        Chernozhukov et al. 2018; the R-learner of Nie and Wager 2021 with one effect per level). They are the score of
        a (logistic) regression with the anchor as offset, maximized over θ ≥ 0. Steps within two standard errors of 0
        are dropped, the least certain first. O(J²·n) per Newton step.
        """
        size = curves.levels.size
        index, rows = np.asarray(level), np.arange(np.size(level))
        observed = np.asarray(y, dtype=np.float64)
        share = np.ones(rows.size) if weight is None else np.asarray(weight, dtype=np.float64)
        above = np.cumsum(np.asarray(usual, dtype=np.float64)[::-1], axis=0)[::-1]
        z = (index[None] >= np.arange(1, size)[:, None]) - above[1:]
        offset = anchor(curves, np.asarray(usual, dtype=np.float64), probability)
        of = rows if cluster is None else np.unique(np.asarray(cluster), return_inverse=True)[1]
        candidates = np.flatnonzero((np.abs(z) @ share) > 1e-6 * share.sum())
        step, error = np.zeros(size), np.zeros(size)
        while candidates.size:
            theta, errors = _rising(z[candidates], observed, offset, share, of, probability)
            certain = np.where(theta > 0, theta / np.maximum(errors, 1e-300), 0.0)
            if certain.min() > TWO_SIDED_5_PERCENT:
                step[candidates + 1], error[candidates + 1] = theta, errors
                break
            candidates = np.delete(candidates, certain.argmin())
        return cls(np.cumsum(step), error, probability)


def anchor(curves: Curves, usual: Array, probability: bool) -> Array:
    """Mean (N,) of each curve over its usual levels (J, N): logits for a probability, else the response."""
    response = curves.response.astype(np.float64)
    return np.asarray((usual * (_logit(response) if probability else response)).sum(axis=0))


def _rising(
    z: Array, y: Array, offset: Array, share: Array, of: NDArray[np.intp], probability: bool
) -> tuple[Array, Array]:
    """θ ≥ 0 (K,) of the regression of ``y`` on z (K, n) with an offset, and cluster-robust standard errors.

    Newton steps on the coordinates that are free, projected and halved until the likelihood rises (Bertsekas 1982).
    """
    theta = np.zeros(len(z))

    def loglik(at: Array) -> float:
        eta = offset + at @ z
        if probability:
            return float(share @ (y * eta - np.logaddexp(0.0, eta)))
        return float(-0.5 * share @ (y - eta) ** 2)

    best = loglik(theta)
    for _ in range(STEPS):
        fitted = sigmoid(offset + theta @ z) if probability else offset + theta @ z
        residual = share * (y - fitted)
        gradient = z @ residual
        spread = share * (fitted * (1 - fitted) if probability else 1.0)
        information = (z * spread) @ z.T + 1e-9 * np.eye(len(z))
        free = (theta > 0) | (gradient > 0)
        move = np.zeros_like(theta)
        if free.any():
            move[free] = np.linalg.solve(information[np.ix_(free, free)], gradient[free])
        length, likelihood = 1.0, best
        while length > 1e-8:
            trial = np.maximum(theta + length * move, 0.0)
            likelihood = loglik(trial)
            if likelihood > best:
                break
            length /= 2
        if likelihood - best < 1e-10 * max(1.0, abs(best)):
            break
        theta, best = trial, likelihood
    free = theta > 0
    errors = np.full(len(z), np.inf)
    if free.any():
        inverse = np.linalg.inv(information[np.ix_(free, free)])
        scores = np.stack([np.bincount(of, column * residual) for column in z[free]])
        errors[free] = np.sqrt(np.diag(inverse @ (scores @ scores.T) @ inverse))
    return theta, errors


def cell_names(frame: pd.DataFrame, columns: Sequence[str]) -> NDArray[np.object_]:
    """Name (n,) of the cell of each row: its entries in ``columns``, joined."""
    parts = []
    for name in columns:
        column = frame[name]
        # Numbers are named by six digits: a threshold that went through a store as float32 is the same cell.
        number = pd.api.types.is_float_dtype(column)
        parts.append(column.map("{:.6g}".format) if number else column.astype(str))
    joined = parts[0]
    for part in parts[1:]:
        joined = joined + SEPARATOR + part
    return np.asarray(joined.to_numpy(dtype=object))


def _logit(p: Array) -> Array:
    inside = np.clip(p, EDGE, 1 - EDGE)
    return np.asarray(np.log(inside) - np.log1p(-inside))
