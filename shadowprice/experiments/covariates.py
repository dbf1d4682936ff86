"""Covariates of the time before an experiment, which narrow the interval of a contrast."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.checks import require
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.policy.off_policy import cross_fitted
from shadowprice.evaluation.statistics.metric import Array, as_rows
from shadowprice.experiments.effects import DIFFERENCE, Cells, Contrast


def adjusted(cells: Cells, plain: Contrast, covariates: ArrayLike, coefficients: ArrayLike = DIFFERENCE) -> Contrast:
    """Return a contrast less the best multiple of the same contrast of the covariates (CUPED).

    With the sums s_g of the influence of each unit g, and x_g those of the covariates, the multiple is that of the
    regression of s on x. Its own error counts: the influence of a unit is its residual times (1 − x_g'(X'X)⁻¹d) for
    the contrasts d of the covariates, over √(1 − x_g'(X'X)⁻¹x_g). Each covariate takes a degree of freedom.

    Args:
        cells: of the rows.
        plain: contrast of the outcome.
        covariates: (p, N), quantities that the arm cannot have changed, such as those of the time before.
        coefficients: (C,) of the contrast.

    Raises:
        InvalidInput: more covariates than a tenth of the units.

    Source: Deng, Xu, Kohavi and Walker (2013). O(N·p + units·p²).
    """
    if not len(np.asarray(covariates)):
        return plain
    rows = [cells.contrast(as_rows({"covariates": row})["covariates"], coefficients) for row in np.asarray(covariates)]
    units = cells.ways[0]
    x = np.stack([units.sums(covariate.influence) for covariate in rows], axis=1)
    require(10 * len(rows) <= units.size, "covariates", f"must be at most a tenth of the {units.size} units")
    inverse = np.linalg.pinv(x.T @ x)
    multiple = inverse @ x.T @ units.sums(plain.influence)
    away = np.array([covariate.value for covariate in rows])
    part = np.einsum("gp,pq,gq->g", x, inverse, x)
    factor = (1.0 - x @ inverse @ away) / np.sqrt(np.maximum(1.0 - part, 1e-9))
    residual = plain.influence - multiple @ np.stack([covariate.influence for covariate in rows])
    return replace(
        plain,
        value=plain.value - float(multiple @ away),
        influence=residual * factor[units.of],
        spent=plain.spent + int(np.linalg.matrix_rank(x)),
    )


def with_missing(columns: Sequence[ArrayLike]) -> Array:
    """(p, N) covariates whose missing entries became the mean, and an indicator for each column that has some.

    New accounts have no past: their rows stay in the comparison.
    """
    stacked: list[Array] = []
    for column in columns:
        values = np.asarray(column, dtype=np.float64)
        missing = ~np.isfinite(values)
        if missing.all():
            continue
        stacked.append(np.where(missing, values[~missing].mean(), values))
        if missing.any():
            stacked.append(missing.astype(np.float64))
    return np.stack(stacked) if stacked else np.zeros((0, 0))


def predicted(y: ArrayLike, features: ArrayLike, unit: ArrayLike, *, folds: int = 5, seed: int = 0) -> Array:
    """Prediction of each row's outcome by a model that has not seen the row's unit, (N,).

    Least squares on the features and their squares. A user's own model takes its place as it is, if it was fitted on
    earlier rows, or by :func:`~shadowprice.evaluation.policy.off_policy.cross_fitted`. The arm is not among the
    features: a covariate must not depend on it.

    Args:
        y: (N,) outcomes.
        features: (p, N), known before the assignment.
        unit: (N,) what was assigned.
        folds: of the units.
        seed: of the folds.

    O(N · p²).
    """
    outcome = as_rows({"y": y})["y"]
    matrix = np.asarray(features, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] != outcome.size:
        raise InvalidInput(f"must have shape (features, {outcome.size}), got {matrix.shape}", field="features")
    InvalidInput.refuse_rows(~np.isfinite(matrix), "must be finite; fill the missing entries", field="features")
    spread = matrix.std(axis=1, keepdims=True)
    scaled = (matrix - matrix.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1.0)
    design = np.concatenate([np.ones((1, outcome.size)), scaled, scaled**2])

    def fit_predict(train: NDArray[np.bool_], test: NDArray[np.bool_]) -> Array:
        weights = np.linalg.lstsq(design[:, train].T, outcome[train], rcond=None)[0]
        return np.asarray(weights @ design[:, test])[None]

    return np.asarray(cross_fitted(fit_predict, unit, folds=folds, seed=seed)[0])
