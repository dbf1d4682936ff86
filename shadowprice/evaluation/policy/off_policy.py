"""Estimate the value of a policy from rows that another policy decided with known probabilities.

``target`` (N,) is the probability that the judged policy gives each row its logged level. ``propensity`` (N,) is the
logged probability of that level.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.checks import require
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.groups import codes
from shadowprice.evaluation.statistics.intervals import Statistic
from shadowprice.evaluation.statistics.metric import Array, as_probability, metric, ratio


@metric
def ips_value(
    y: Array, target: Array, propensity: Array, *, clip: float | None = None, normalize: bool = True
) -> Statistic:
    """Value of a policy by inverse propensity weighting: Σ w·y / Σ w with w = target / propensity (Hájek).

    ``normalize=False`` divides by the rows instead (Horvitz–Thompson), which is unbiased and varies
    more; ``clip`` caps w, which lowers the variance for some bias. NaN where no row has weight. O(N).
    """
    w = importance(target, propensity, clip)

    def statistic(weight: Array) -> Array:
        return ratio(weight @ (w * y), weight @ w if normalize else weight.sum(axis=1))

    return statistic


@metric
def dr_value(
    y: Array,
    target: Array,
    propensity: Array,
    predicted: Array,
    expected: Array,
    *,
    switch: float | None = None,
    shrink: float | None = None,
) -> Statistic:
    """Value of a policy, doubly robust: mean of ``expected`` + w·(y − ``predicted``), with w = target / propensity.

    ``predicted`` (N,) is an outcome model's response at the level given, ``expected`` (N,) its
    response under the policy judged, Σ_j π_j q_j. The model must not have seen the row: see
    :func:`cross_fitted`. Unbiased if the propensities or the model are right.

    ``switch`` drops the correction where w exceeds it (switch-DR; Wang, Agarwal and Dudík 2017);
    ``shrink`` λ replaces w by λ·w / (w² + λ) (DR with optimistic shrinkage; Su et al. 2020), which
    tends to w as λ grows and to the model alone as λ falls to 0. O(N).
    """
    w = shrunk(importance(target, propensity), switch, shrink)
    score = expected + w * (y - predicted)
    return lambda weight: ratio(weight @ score, weight.sum(axis=1))


@metric
def effective_rows(target: Array, propensity: Array) -> Statistic:
    """Rows that a weighted mean is worth: (Σ w)² / Σ w², with w = target / propensity (Kish 1965). O(N)."""
    w = importance(target, propensity)
    return lambda weight: np.nan_to_num(ratio((weight @ w) ** 2, weight @ w**2), nan=0.0)


def importance(target: Array, propensity: Array, clip: float | None = None) -> Array:
    """w = target / propensity, capped at ``clip``; refused unless both are probabilities and none was impossible."""
    as_probability(target, "target")
    as_probability(propensity, "propensity")
    impossible = "must be positive: a row that could not happen cannot be weighted"
    InvalidInput.refuse_rows(propensity <= 0, impossible, field="propensity")
    require(clip is None or clip > 0, "clip", "must be positive")
    w = target / propensity
    return w if clip is None else np.minimum(w, clip)


def shrunk(w: Array, switch: float | None, shrink: float | None) -> Array:
    """The weights of the switch and of the shrunk estimator; see :func:`dr_value`."""
    for name, option in (("switch", switch), ("shrink", shrink)):
        require(option is None or option >= 0, name, "must not be negative")
    if switch is not None:
        w = np.where(w <= switch, w, 0.0)
    if shrink is not None:
        w = ratio(shrink * w, w**2 + shrink)
        w = np.nan_to_num(w, nan=0.0)
    return w


def cross_fitted(
    fit_predict: Callable[[NDArray[np.bool_], NDArray[np.bool_]], ArrayLike],
    account: ArrayLike,
    *,
    folds: int = 5,
    seed: int = 0,
) -> Array:
    """Predictions (J, N) of which each row's come from a model that has not seen the row's account.

    Args:
        fit_predict: (train, test) masks (N,) → predictions (J, n) of the test rows by a model of the train rows.
        account: (N,).
        folds: of accounts.
        seed: of the draw of folds.
    """
    of, accounts = codes(account, field="account")
    require(2 <= folds <= accounts, "folds", f"must lie between 2 and the number of accounts, {accounts}")
    fold = np.random.default_rng(seed).permutation(accounts)[of] % folds
    out: Array | None = None
    for k in range(folds):
        test = fold == k
        part = np.asarray(fit_predict(~test, test), dtype=np.float64)
        if out is None:
            out = np.empty((part.shape[0], of.size))
        out[:, test] = part
    assert out is not None
    return out
