"""One-parameter corrections of the overall level of a response, on held-out rows.

They repair a level that drifted since training and cannot bend a curve or break its monotonicity.
Nothing is corrected, and 0 returned, unless :func:`differs` says that there is an error: what a few
hundred accounts show by chance would only be carried into the budget.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

TWO_SIDED_5_PERCENT = 1.96


def differs(score: ArrayLike, account: ArrayLike) -> bool:
    """Whether the scores of rows (n,) sum to something other than zero, beyond chance at the 5 % level.

    ``account`` (n,) names each row's account; rows of one account count as one draw. Scores of weighted rows come
    multiplied by their weights.
    """
    _, place = np.unique(np.asarray(account), return_inverse=True)
    sums = np.bincount(place, weights=np.asarray(score, dtype=np.float64))
    if sums.size < 2:
        return False
    deviation = float(sums.std(ddof=1)) * float(np.sqrt(sums.size))
    return abs(float(sums.sum())) > TWO_SIDED_5_PERCENT * deviation > 0.0


def hazard_factor(
    cumulative: ArrayLike, response: ArrayLike, account: ArrayLike, weight: ArrayLike | None = None
) -> float:
    """log c of the factor c on all hazards, Λ' = c·Λ, under which rows (n,) of current-status data are likeliest.

    An intercept on the complementary log-log scale. The weighted likelihood is concave in c; its root is found by
    bisection on the derivative.
    """
    w = _weights(weight, response)
    hazard = np.maximum(np.asarray(cumulative, dtype=np.float64), 1e-12)
    hits = (np.asarray(response) > 0.5) & (w > 0)
    misses = (np.asarray(response) <= 0.5) & (w > 0)
    with np.errstate(over="ignore"):
        score = w * np.where(hits, hazard / np.expm1(hazard), -hazard)
        if not hits.any() or not misses.any() or not differs(score, account):
            return 0.0
        low, high = 1e-3, 1e3
        for _ in range(80):
            middle = float(np.sqrt(low * high))
            slope = w[hits] @ (hazard[hits] / np.expm1(middle * hazard[hits])) - w[misses] @ hazard[misses]
            low, high = (middle, high) if slope > 0 else (low, middle)
    return 0.5 * float(np.log(low * high))


def logit_shift(logit: ArrayLike, response: ArrayLike, account: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Intercept to add to the logits of rows (n,), by bisection on the mean error, which is monotone in it."""
    score, y = np.asarray(logit, dtype=np.float64), np.asarray(response, dtype=np.float64)
    w = _weights(weight, y)

    def error(shift: float) -> Array:
        return np.asarray(w * (y - 0.5 * (1.0 + np.tanh(0.5 * (score + shift)))))

    if not 0.0 < w @ y < w.sum() or not differs(error(0.0), account):
        return 0.0
    low, high = -10.0, 10.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if error(middle).mean() > 0 else (low, middle)
    return 0.5 * (low + high)


def mean_shift(predicted: ArrayLike, response: ArrayLike, account: ArrayLike, weight: ArrayLike | None = None) -> float:
    """What to add to the predictions of rows (n,): their mean error."""
    w = _weights(weight, response)
    error = w * (np.asarray(response, dtype=np.float64) - np.asarray(predicted, dtype=np.float64))
    return float(error.sum() / w.sum()) if differs(error, account) else 0.0


def _weights(weight: ArrayLike | None, response: ArrayLike) -> Array:
    return np.ones(np.size(response)) if weight is None else np.asarray(weight, dtype=np.float64)
