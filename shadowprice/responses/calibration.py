"""One-parameter corrections of the overall level of a response, on held-out rows.

They repair a level that drifted since training and cannot bend a curve or break its monotonicity.
Nothing is corrected, and 0 returned, unless :func:`differs` finds an error: the chance of a few hundred accounts must
not change the budget. :func:`agreed` corrects only by an error that several weeks share.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.evaluation.statistics.random_effects import random_effects
from shadowprice.responses.arrays import sigmoid

Array = NDArray[np.float64]

TWO_SIDED_5_PERCENT = 1.96


def differs(score: ArrayLike, account: ArrayLike) -> bool:
    """Return whether the scores of rows (n,) sum to something other than zero, beyond chance at the 5 % level.

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
    hazard, hits, w = _hazard_rows(cumulative, response, weight)
    if not differs(w * _hazard_score(hazard, hits), account):
        return 0.0
    return _hazard_root(hazard, hits, w)


@dataclass(frozen=True, eq=False)
class Offset:
    """Correction of one window that fits it best, and the contribution (n,) of each row to its error."""

    value: float
    influence: Array


def hazard_offset(cumulative: ArrayLike, response: ArrayLike, weight: ArrayLike | None = None) -> Offset:
    """log c as in :func:`hazard_factor`, whether or not it differs from 0; 0 where all rows responded alike."""
    hazard, hits, w = _hazard_rows(cumulative, response, weight)
    root = _hazard_root(hazard, hits, w)
    scaled = hazard * np.exp(root)
    with np.errstate(over="ignore", invalid="ignore"):
        rise = np.expm1(scaled)
        curvature = np.where(hits, scaled * (scaled * (rise + 1) - rise) / rise**2, scaled)
    # Beyond any hazard that is met, a hit carries no information.
    information = float(w @ np.nan_to_num(curvature, nan=0.0, posinf=0.0))
    return Offset(root, w * _hazard_score(scaled, hits) / information)


def mean_offset(predicted: ArrayLike, response: ArrayLike, weight: ArrayLike | None = None) -> Offset:
    """Mean error of the predictions of rows (n,)."""
    w = _weights(weight, response)
    error = np.asarray(response, dtype=np.float64) - np.asarray(predicted, dtype=np.float64)
    value = float(w @ error / w.sum())
    return Offset(value, w * (error - value) / w.sum())


def agreed(offsets: Sequence[Offset], groups: Sequence[ArrayLike]) -> float:
    """Correction that windows agree on: the end nearer to 0 of the interval of their mean, 0 where it holds 0.

    Args:
        offsets: one per window, of predictions by a model that has not seen the window.
        groups: names (n,) of the group of each row, whose rows share an error; a group may be in several windows.

    Windows that disagree, and errors that few groups carry, widen the interval (see
    :func:`~shadowprice.evaluation.statistics.random_effects.random_effects`). One window cannot agree with itself: 0.
    """
    if len(offsets) < 2:
        return 0.0
    names, of = np.unique(np.concatenate([np.asarray(group, dtype=str) for group in groups]), return_inverse=True)
    ends = np.cumsum([offset.influence.size for offset in offsets])[:-1]
    influence = np.stack(
        [
            np.bincount(code, offset.influence, minlength=names.size)
            for code, offset in zip(np.split(of, ends), offsets, strict=True)
        ]
    )
    mean = random_effects([offset.value for offset in offsets], influence)
    return max(mean.low, 0.0) + min(mean.high, 0.0)


def logit_shift(logit: ArrayLike, response: ArrayLike, account: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Intercept to add to the logits of rows (n,), by bisection on the mean error, which is monotone in it."""
    score, y = np.asarray(logit, dtype=np.float64), np.asarray(response, dtype=np.float64)
    w = _weights(weight, y)

    def error(shift: float) -> Array:
        return np.asarray(w * (y - sigmoid(score + shift)))

    if not 0.0 < w @ y < w.sum() or not differs(error(0.0), account):
        return 0.0
    low, high = -10.0, 10.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if error(middle).mean() > 0 else (low, middle)
    return 0.5 * (low + high)


def mean_shift(predicted: ArrayLike, response: ArrayLike, account: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Return the mean error of the predictions of rows (n,), which is to be added to them."""
    w = _weights(weight, response)
    error = w * (np.asarray(response, dtype=np.float64) - np.asarray(predicted, dtype=np.float64))
    return float(error.sum() / w.sum()) if differs(error, account) else 0.0


def _weights(weight: ArrayLike | None, response: ArrayLike) -> Array:
    return np.ones(np.size(response)) if weight is None else np.asarray(weight, dtype=np.float64)


def _hazard_rows(
    cumulative: ArrayLike, response: ArrayLike, weight: ArrayLike | None
) -> tuple[Array, NDArray[np.bool_], Array]:
    hazard = np.maximum(np.asarray(cumulative, dtype=np.float64), 1e-12)
    return hazard, np.asarray(response) > 0.5, _weights(weight, response)


def _hazard_score(hazard: Array, hits: NDArray[np.bool_]) -> Array:
    """Derivative of each row's log-likelihood in log c at c = 1."""
    with np.errstate(over="ignore"):
        return np.where(hits, hazard / np.expm1(hazard), -hazard)


def _hazard_root(hazard: Array, hits: NDArray[np.bool_], w: Array) -> float:
    """log c of the likeliest factor c in [1e-3, 1e3]; 0 where all weighted rows responded alike."""
    hits, misses = hits & (w > 0), ~hits & (w > 0)
    if not hits.any() or not misses.any():
        return 0.0
    low, high = 1e-3, 1e3
    with np.errstate(over="ignore"):
        for _ in range(80):
            middle = float(np.sqrt(low * high))
            slope = w[hits] @ (hazard[hits] / np.expm1(middle * hazard[hits])) - w[misses] @ hazard[misses]
            low, high = (middle, high) if slope > 0 else (low, middle)
    return 0.5 * float(np.log(low * high))
