"""Balance of a trial: whether the accounts of its levels were alike before it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from shadowprice.evaluation.statistics.level_means import LevelMeans
from shadowprice.evaluation.statistics.metric import Array
from shadowprice.evaluation.uplift.shares import CHANCE

CATEGORIES = 10
"""Most frequent values of a text whose shares are compared; the others are compared together."""
LEAST_MISSING = 0.01
"""Share of missing cells from which it is compared too whether a number is known."""
MATERIAL = 0.1
"""Standardized difference from which an imbalance is no small one (Austin 2009, Statistics in Medicine 28:3083)."""


@dataclass(frozen=True)
class Balance:
    """Comparison of features from before the trial between levels.

    features    number of features
    worst       feature that differs most
    difference  of it between the level that differs most and the lowest one, in standard deviations
    p_value     of the test that no feature differs: the smallest of the features, times their number
    accounts    whose features were compared
    """

    features: int
    worst: str
    difference: float
    p_value: float
    accounts: int

    @property
    def unlike(self) -> bool:
        """Return whether the accounts of the levels differed by more than a little, beyond chance."""
        return self.p_value < CHANCE and abs(self.difference) >= MATERIAL


def balance(rows: LevelMeans, features: pd.DataFrame, accounts: int) -> Balance | None:
    """Compare features between levels; None where there is none that varies.

    Args:
        rows: levels, weights and clusters of N rows.
        features: (N, …) columns x_* (numbers) and c_* (texts), as known before each row's decision.
        accounts: number of accounts among the rows.

    A number is compared by its mean, with missing cells at the mean, and by the share of known cells; a text by the
    shares of its values. Each comparison is a Wald test that the J means are equal, with the variance of
    :class:`~shadowprice.evaluation.statistics.level_means.LevelMeans`. O(N) for each feature.
    """
    columns = [(name, *_compare(rows, column)) for name, column in _columns(features).items()]
    columns = [compared for compared in columns if np.isfinite(compared[2])]
    if not columns:
        return None
    name, difference, p_value = min(columns, key=lambda each: (each[2], -abs(each[1])))
    return Balance(len(features.columns), name, difference, min(1.0, p_value * len(columns)), accounts)


def _compare(rows: LevelMeans, column: Array) -> tuple[float, float]:
    """Largest standardized difference to the lowest level, and the p-value of all of them."""
    deviation = float(column.std())
    if not deviation > 0:
        return 0.0, np.nan
    means = rows.of(column)
    known = np.flatnonzero(means.groups > 1)
    if known.size < 2:
        return 0.0, np.nan
    contrasts = np.zeros((known.size - 1, rows.levels))
    contrasts[:, known[0]] = -1.0
    contrasts[np.arange(known.size - 1), known[1:]] = 1.0
    difference = np.array([means.at(contrast) for contrast in contrasts])
    covariance = np.array([[means.covariance(one, other) for other in contrasts] for one in contrasts])
    square = float(difference @ np.linalg.pinv(covariance, hermitian=True) @ difference)
    largest = float(difference[np.argmax(np.abs(difference))]) / deviation
    return largest, float(special.chdtrc(known.size - 1, max(square, 0.0)))


def _columns(features: pd.DataFrame) -> Mapping[str, Array]:
    """Name of the feature, or of one of its values → numbers (N,)."""
    columns: dict[str, Array] = {}
    for name in features.columns:
        label = str(name)[2:]
        if str(name).startswith("c_"):
            text = features[name].astype(object).where(features[name].notna(), "unknown").astype(str)
            for value in text.value_counts().index[:CATEGORIES]:
                columns[f"{label} = {value}"] = (text == value).to_numpy(dtype=np.float64)
            continue
        number = features[name].to_numpy(dtype=np.float64)
        known = np.isfinite(number)
        if known.any():
            columns[label] = np.where(known, number, number[known].mean())
        if LEAST_MISSING < 1 - known.mean() < 1 - LEAST_MISSING:
            columns[f"{label} is known"] = known.astype(np.float64)
    return columns
