"""Weights of rows whose incentives were not assigned at random, from known or fitted propensities (S1, 3.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.checks import refuse_rows, require, require_one_of
from shadowprice.evaluation.policy.off_policy import cross_fitted
from shadowprice.responses.tabular.rows import TabularInputs, fit_tabular
from shadowprice.responses.weights import Weights, inverse_propensity

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

Array = NDArray[np.float64]

Weighting = Literal["none", "known", "fitted"]
"""Every row alike; the inverse of the logged propensities; the inverse of propensities fitted here."""


def check_weighting(how: str) -> Weighting:
    """Return ``how``, or raise :class:`InvalidInput` unless it is one of :data:`Weighting`."""
    require_one_of(how, get_args(Weighting), "weighting")
    return cast(Weighting, how)


def weigh(frame: pd.DataFrame, levels: int, how: Weighting, *, seed: int = 0) -> Weights | None:
    """Weights of the rows of ``frame``, or None where every row counts alike.

    Args:
        frame: account_id, level; ``propensity`` when known, and the features the assignment looked at when fitted.
        levels: J.
        how: where the propensities come from.
        seed: of the folds.

    Raises:
        InvalidInput: no propensity was logged, or the levels do not overlap.
    """
    if how == "none":
        return None
    level = frame["level"].to_numpy(dtype=np.int64)
    if how == "fitted":
        return inverse_propensity(level, fit_propensity(frame, seed=seed), levels)
    unlogged = "was not logged; choose weighting 'fitted' or 'none'"
    require("propensity" in frame, "propensity", unlogged)
    refuse_rows("propensity", frame["propensity"].isna(), unlogged)
    return inverse_propensity(level, frame["propensity"].to_numpy(dtype=np.float64), levels)


def judged_propensity(frame: pd.DataFrame) -> Array | None:
    """Propensities (n,) by which other policies are judged from these rows, or None where some are unknown.

    Rows with balancing weights are judged with these: the share of the level over its weight, which is the propensity
    that the weight was made of, up to the cut of large weights. Other rows have the logged propensity, and sessions the
    ``share`` of their voucher, which weights no row of a training.

    Args:
        frame: all labeled rows that were weighted together: level, ``balancing_weight``, ``propensity`` or ``share``.
    """
    if "balancing_weight" in frame and frame["balancing_weight"].notna().all():
        level = frame["level"].to_numpy(dtype=np.int64)
        share = np.bincount(level) / level.size
        return np.asarray(np.minimum(share[level] / frame["balancing_weight"].to_numpy(dtype=np.float64), 1.0))
    known = (name for name in ("propensity", "share") if name in frame and frame[name].notna().all())
    return next((frame[name].to_numpy(dtype=np.float64) for name in known), None)


def fit_multinomial(features: Array, level: NDArray[np.int64], *, l2: float = 1.0) -> LogisticRegression:
    """Fit p(level | features) = softmax(features·W + b) by maximum likelihood with penalty ``l2``/2·|W|².

    Args:
        features: (n, P), of about unit scale.
        level: (n,) index, of two levels at least.
    """
    # Imported here: scikit-learn takes a second, and most trainings fit no propensities.
    from sklearn.linear_model import LogisticRegression

    # Of two levels scikit-learn fits one difference of coefficients, whose square is twice the sum of both squares.
    inverse = (2.0 if np.unique(level).size == 2 else 1.0) / l2 if l2 else np.inf
    return LogisticRegression(C=inverse, tol=1e-10, max_iter=2000).fit(features, level)


def fit_propensity(frame: pd.DataFrame, *, folds: int = 5, seed: int = 0) -> Array:
    """Probability (n,) with which each row was given its own level, by models that never saw its account.

    Cross-fitted: accounts are dealt into ``folds``, and each fold's rows are scored by a multinomial logistic
    regression on the features (x_*, c_*) of the others. A model that has seen a row overstates its propensity.
    Without features it is the share of the level among the others.

    Args:
        frame: account_id, level and the features that the assignment may have looked at.

    Raises:
        InvalidInput: fewer accounts than folds, fewer than two folds, or a level that only one fold knows.
    """
    level = frame["level"].to_numpy(dtype=np.int64)
    if np.unique(level).size == 1:
        return np.ones(level.size)

    def given(train: NDArray[np.bool_], test: NDArray[np.bool_]) -> Array:
        for few in np.setdiff1d(level[test], level[train])[:1]:
            reason = f"level {few} occurs for too few accounts to fit its propensity; drop the level or merge it"
            refuse_rows("level", level == few, reason)
        inputs = fit_tabular(frame[train])
        model = fit_multinomial(_features(inputs, frame[train]), level[train])
        column = np.searchsorted(model.classes_, level[test])
        chances: Array = model.predict_proba(_features(inputs, frame[test]))
        return chances[np.arange(column.size), column][None]

    account = frame["account_id"].to_numpy(dtype=str)
    return np.asarray(cross_fitted(given, account, folds=folds, seed=seed)[0])


def _features(inputs: TabularInputs, frame: pd.DataFrame) -> Array:
    """(n, P ≥ 1): zeros where there is no feature, which leave the intercepts."""
    dense = inputs.dense(frame)
    return dense if dense.shape[1] else np.zeros((len(frame), 1))
