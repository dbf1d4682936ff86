"""Weights of rows whose incentives were not assigned at random, from known or fitted propensities (S1, 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from shadowprice.errors import InvalidInput
from shadowprice.responses.tabular.rows import fit_tabular
from shadowprice.responses.weights import Weights, inverse_propensity

Array = NDArray[np.float64]

Weighting = Literal["none", "known", "fitted"]
"""Every row alike; the inverse of the logged propensities; the inverse of propensities fitted here."""


def check_weighting(how: str) -> Weighting:
    """``how``, refused unless it is one of :data:`Weighting`."""
    if how not in get_args(Weighting):
        raise InvalidInput(f"must be one of {', '.join(get_args(Weighting))}, got {how!r}", field="weighting")
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
        return inverse_propensity(level, fit_propensity(frame, levels, seed=seed), levels)
    if "propensity" not in frame or frame["propensity"].isna().any():
        rows = [] if "propensity" not in frame else np.flatnonzero(frame["propensity"].isna())[:5].tolist()
        raise InvalidInput("was not logged; choose weighting 'fitted' or 'none'", field="propensity", rows=rows)
    return inverse_propensity(level, frame["propensity"].to_numpy(dtype=np.float64), levels)


def judged_propensity(frame: pd.DataFrame) -> Array | None:
    """Propensities (n,) by which other policies are judged from these rows, or None where some are unknown.

    Rows with balancing weights are judged with these: the share of the level over its weight, which is the propensity
    that the weight was made of, up to the cut of large weights. Other rows have the logged propensity.

    Args:
        frame: all labelled rows that were weighted together: level, ``balancing_weight`` or ``propensity``.
    """
    if "balancing_weight" in frame and frame["balancing_weight"].notna().all():
        level = frame["level"].to_numpy(dtype=np.int64)
        share = np.bincount(level) / level.size
        return np.asarray(np.minimum(share[level] / frame["balancing_weight"].to_numpy(dtype=np.float64), 1.0))
    if "propensity" in frame and frame["propensity"].notna().all():
        return frame["propensity"].to_numpy(dtype=np.float64)
    return None


@dataclass(frozen=True, eq=False)
class MultinomialLogistic:
    """p(level | features) = softmax(features·W + b): coefficient (P, J), intercept (J,)."""

    coefficient: Array
    intercept: Array

    def probability(self, features: Array) -> Array:
        """(n, J)."""
        return np.asarray(softmax(features @ self.coefficient + self.intercept, axis=1))


def fit_multinomial(features: Array, level: NDArray[np.int64], levels: int, *, l2: float = 1.0) -> MultinomialLogistic:
    """Maximum likelihood with penalty ``l2``/2·|W|² on the sum of the log losses; the intercepts are free.

    Args:
        features: (n, P), of about unit scale.
        level: (n,) index; a level that does not occur gets probability 0 in effect.
        levels: J.

    Convex; L-BFGS. O(iterations · n · P · J).
    """
    rows, width = features.shape
    given = np.eye(levels)[level]
    share = (given.sum(axis=0) + 1e-3) / (rows + 1e-3 * levels)

    def objective(value: Array) -> tuple[float, Array]:
        coefficient, intercept = value[levels:].reshape(width, levels), value[:levels]
        score = features @ coefficient + intercept
        total = logsumexp(score, axis=1)
        loss = total.sum() - score[np.arange(rows), level].sum() + 0.5 * l2 * np.sum(coefficient**2)
        error = np.exp(score - total[:, None]) - given
        slope = np.concatenate([error.sum(axis=0), (features.T @ error + l2 * coefficient).ravel()])
        return float(loss) / rows, slope / rows

    start = np.concatenate([np.log(share), np.zeros(width * levels)])
    found = minimize(
        objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000, "ftol": 1e-12, "gtol": 1e-8}
    )
    return MultinomialLogistic(found.x[levels:].reshape(width, levels), found.x[:levels])


def fit_propensity(frame: pd.DataFrame, levels: int, *, folds: int = 5, l2: float = 1.0, seed: int = 0) -> Array:
    """Probability (n,) with which each row was given its own level, by models that never saw its account.

    Cross-fitted: accounts are dealt into ``folds``, and each fold's rows are scored by a multinomial logistic
    regression on the features (x_*, c_*) of the others. A model that has seen a row overstates its propensity.

    Args:
        frame: account_id, level and the features that the assignment may have looked at. What it looked at and is
            not among them cannot be corrected for.
        levels: J.

    Raises:
        InvalidInput: fewer accounts than folds, fewer than two folds, or a level that only one fold knows.
    """
    level = frame["level"].to_numpy(dtype=np.int64)
    account, owners = pd.factorize(frame["account_id"].astype(str), sort=True)
    if folds < 2 or owners.size < folds:
        raise InvalidInput(f"needs 2 to {owners.size} folds, the number of accounts, got {folds}", field="folds")
    fold = (np.random.default_rng(seed).permutation(owners.size) % folds)[account]
    chance = np.empty(level.size)
    for each in range(folds):
        own = fold == each
        unseen = np.setdiff1d(level[own], level[~own])
        if unseen.size:
            raise InvalidInput(
                f"level {unseen[0]} occurs for too few accounts to fit its propensity; drop the level or merge it",
                field="level",
                rows=np.flatnonzero(level == unseen[0])[:5].tolist(),
            )
        inputs = fit_tabular(frame[~own])
        model = fit_multinomial(inputs.dense(frame[~own]), level[~own], levels, l2=l2)
        chance[own] = model.probability(inputs.dense(frame[own]))[np.arange(own.sum()), level[own]]
    return chance
