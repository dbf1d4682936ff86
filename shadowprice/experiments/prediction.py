"""Prediction of an outcome from quantities of the time before, as a covariate of the lift."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.policy.off_policy import cross_fitted
from shadowprice.evaluation.statistics.metric import Array, as_rows


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
