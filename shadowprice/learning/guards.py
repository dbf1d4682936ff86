"""Second outcomes of a side's requests by level, from its log: what guardrails limit."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.evaluation.statistics.clusters import row_clusters
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.statistics.level_means import LevelMeans
from shadowprice.learning.propensity import judged_propensity
from shadowprice.learning.training_set import TrainingSet
from shadowprice.limits import OUTCOME


def guards_of_side(rows: pd.DataFrame, levels: int) -> dict[str, tuple[Estimate, ...]]:
    """Return the mean of each second outcome ``x_…`` at each of J levels, with its interval by accounts. O(N log N).

    Rows are weighted by the inverse of their propensity (Hájek), where all have one: the mean of a level is then that
    of all requests at this level. Rows without the outcome are left out.

    Args:
        rows: with ``level``, ``account_id`` and columns ``outcome_x_…``
            (:func:`shadowprice.tables.views.labels_query`).
        levels: J. An outcome that is not known at each of them is left out.
    """
    found: dict[str, tuple[Estimate, ...]] = {}
    chance = judged_propensity(rows)
    weight = np.ones(len(rows)) if chance is None else 1.0 / chance
    for column in rows.columns:
        if not column.startswith(OUTCOME):
            continue
        own = rows[column].to_numpy(dtype=np.float64)
        known = np.isfinite(own)
        level = rows["level"].to_numpy(dtype=np.int64)[known]
        if np.bincount(level, minlength=levels).all():
            account = row_clusters(rows)[known]
            means = LevelMeans(level, levels, weight=weight[known], account=account).of(own[known])
            found[column.removeprefix(OUTCOME)] = tuple(map(means.estimate, np.eye(levels)))
    return found


def fitted_guards(data: TrainingSet, *splits: str) -> dict[Side, dict[str, tuple[Estimate, ...]]]:
    """Side → :func:`guards_of_side` of its rows in the splits."""
    return {side: guards_of_side(rows, len(data.levels[side])) for side, rows in data.part(*splits).items()}


def means_of(found: Mapping[str, Sequence[Estimate]]) -> dict[str, NDArray[np.float64]]:
    """Name → mean at each level, float64 (J,)."""
    return {name: np.array([level.value for level in levels]) for name, levels in found.items()}
