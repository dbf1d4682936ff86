"""Ridge regression whose penalties are those of most evidence."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

STEPS = 50
CLOSE = 0.02
"""Change of the logarithm of each penalty at which the search ends."""
LARGEST = 1e8
LEAST_VARIANCE = 1e-6


def shrunk(
    gram: Array, moment: Array, square: float, rows: float, groups: Sequence[NDArray[np.int64]]
) -> tuple[Array, float]:
    """Return coefficients (P,) of the regression y = X·b + e, and the variance of e.

    The coefficients of each group have one normal prior around 0, whose variance is that of most evidence. A group
    that rows do not support vanishes; coefficients of no group are free. O(P³) a step.

    Args:
        gram: (P, P) Σ w·x·xᵀ; moment: (P,) Σ w·x·y; square: Σ w·y², with weights w of mean 1.
        rows: number of rows.
        groups: disjoint columns.

    Source: MacKay (1992), Bayesian interpolation, with a penalty for each group.

    >>> x = np.array([[1.0, -1.0], [1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> y = np.array([1.1, 0.9, 1.1, 0.9])
    >>> shrunk(x.T @ x, x.T @ y, y @ y, 4, [np.array([1])])[0].round(3).tolist()
    [1.0, -0.0]
    """
    free = gram.shape[0] - sum(group.size for group in groups)
    penalty = np.ones(len(groups))
    variance = max(square / max(rows, 1.0), LEAST_VARIANCE)
    for _ in range(STEPS):
        ridge = np.zeros(gram.shape[0])
        for group, own in zip(groups, penalty, strict=True):
            ridge[group] = own
        covariance = np.linalg.inv(gram / variance + np.diag(ridge))
        found = covariance @ moment / variance
        # Number of coefficients of each group that rows determine.
        known = np.array([g.size - own * covariance[g, g].sum() for g, own in zip(groups, penalty, strict=True)])
        length = np.array([float(found[group] @ found[group]) for group in groups])
        before, penalty = penalty, np.clip(known / np.maximum(length, 1e-300), 1.0 / LARGEST, LARGEST)
        residual = square - 2 * float(found @ moment) + float(found @ gram @ found)
        variance = max(residual / max(rows - free - float(known.sum()), 1.0), LEAST_VARIANCE)
        if np.abs(np.log(penalty / before)).max(initial=0.0) < CLOSE:
            break
    return np.asarray(found), variance
