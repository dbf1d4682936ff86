"""Long-term value of responses: the rows of a training set get the value that a surrogate index predicts."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign.long_term import LongTerm
from shadowprice.checks import refuse_rows
from shadowprice.curves import AMOUNT
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.clusters import row_clusters
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.statistics.level_means import LevelMeans
from shadowprice.evaluation.uplift.long_term import LongTermFigures
from shadowprice.evaluation.uplift.surrogate import SurrogateIndex
from shadowprice.learning.propensity import judged_propensity
from shadowprice.limits import OUTCOME
from shadowprice.responses.tabular.rows import fit_tabular

Array = NDArray[np.float64]

WORTHLESS = 1e-3
"""Factor of the values of responses that are worth no more than none."""


def value_by_index(
    rows: pd.DataFrame, features: pd.DataFrame, plan: LongTerm, levels: int
) -> tuple[Array, LongTermFigures]:
    """Return the long-term value (n,) of each response, minor units, and the figures of the index.

    The index is learned on the rows with a known late outcome that are not held out, and predicts every row alike. An
    account without a response is worth something too, so a response counts with what it adds: at each level the values
    of the responses are multiplied by one factor, so that over the requests of the level they add up to the index less
    that of the lowest level without a response. Rows without a response have 0.

    Args:
        rows: account_id, level, response, split, the outcomes, and the propensity where it is known.
        features: the same rows with columns x_… and c_… as of the decision.
        plan: the outcomes.
        levels: J.

    Raises:
        InvalidInput: an early outcome is missing, a level has no row that is not held out, or too few rows have a known
            late outcome.
    """
    y, level = rows["response"].to_numpy(dtype=np.float64), rows["level"].to_numpy(dtype=np.int64)
    early = np.column_stack([y, *(_early(rows, name, y) for name in plan.early)])
    late = _column(rows, plan.late)
    account = row_clusters(rows)
    used = (rows["split"] != "test").to_numpy()
    learned = used & np.isfinite(late)
    few = np.flatnonzero(np.bincount(level[used], minlength=levels) == 0)
    if few.size:
        raise InvalidInput(f"level {few[0]} has no row that is not held out", field="exposure.offer_id")
    known = fit_tabular(features[learned]).dense(features)
    try:
        index = SurrogateIndex.fit(early[learned], late[learned], features=known[learned], account=account[learned])
    except InvalidInput as error:
        raise InvalidInput(error.reason, field=f"outcome.{plan.late}") from error
    value = index.predict(early, known)
    chance = judged_propensity(rows)
    weight = np.ones(len(rows)) if chance is None else 1.0 / chance
    sums = _added(y[used], level[used], weight[used], levels)
    added = sums @ value[used]
    share, worthless = _shares(added, value[used], y[used], level[used], weight[used])
    # What counts as nothing has no error.
    inverse = np.divide(1.0, added, out=np.zeros(levels), where=added > 0)
    relative = inverse[:, None] * index.covariance_of(sums, early[used], known[used]) * inverse
    observed, by_index = _of_levels(level[learned], levels, account[learned], late[learned], value[learned])
    how: dict[str, Any] = {"features": known[used], "weight": weight[used], "account": account[used]}
    checked: dict[str, Any] = {"features": known[learned], "account": account[learned]}
    figures = LongTermFigures(
        late=plan.late,
        early=plan.early,
        rows=index.rows,
        accounts=index.accounts,
        explained=index.explained,
        effects=index.effects(early[used], level[used], levels, **how),
        learned=by_index,
        observed=observed,
        p_value=index.difference(early[learned], late[learned], level[learned], **checked),
        worthless=worthless,
        relative=tuple(map(tuple, relative.tolist())),
    )
    return np.where(y > 0, np.maximum(value, 1.0) * share[level], 0.0), figures


def _early(rows: pd.DataFrame, name: str, response: Array) -> Array:
    values = _column(rows, name)
    values = np.where((response > 0) | np.isfinite(values), values, 0.0) if name == AMOUNT else values
    refuse_rows(
        f"outcome.{name}",
        ~np.isfinite(values),
        "is missing: long_term names it among the early outcomes, and each labeled row needs it",
    )
    return values


def _column(rows: pd.DataFrame, name: str) -> Array:
    column = name if name == AMOUNT else f"{OUTCOME}{name}"
    if column not in rows:
        raise InvalidInput("is missing: long_term of the campaign names it", field=f"outcome.{name}")
    return rows[column].to_numpy(dtype=np.float64, na_value=np.nan)


def _added(response: Array, level: NDArray[np.int64], weight: Array, levels: int) -> Array:
    """Weights (J, N) of the sums of the index of each level less that of no response at the lowest level."""
    own = weight * (level == np.arange(levels)[:, None])
    without = weight * ((level == 0) & (response == 0))
    return np.asarray(own - own.sum(axis=1, keepdims=True) * without / max(float(without.sum()), 1e-300))


def _shares(
    added: Array, value: Array, response: Array, level: NDArray[np.int64], weight: Array
) -> tuple[Array, tuple[int, ...]]:
    """Return the factor (J,) of the values of responses at each level, and the levels where it would not be above 0."""
    gross = np.bincount(level, weight * np.maximum(value, 1.0) * (response > 0), minlength=added.size)
    share = np.divide(added, gross, out=np.ones(added.size), where=gross > 0)
    worthless = np.flatnonzero((share <= 0) & (gross > 0))
    # An amount of 0 has no logarithm, and one far below the others would bend the law of all.
    share[worthless] = WORTHLESS
    return share, tuple(worthless.tolist())


def _of_levels(
    level: NDArray[np.int64], levels: int, account: NDArray[np.str_], *measures: Array
) -> list[tuple[Estimate | None, ...]]:
    """Return the effects (J − 1) of each level over the lowest on each measure; None where rows cannot tell."""
    groups = np.array([np.unique(account[level == one]).size for one in range(levels)])
    shown, place = np.flatnonzero(groups > 1), np.cumsum(groups > 1) - 1
    if not groups[0] > 1:
        return [(None,) * (levels - 1) for _ in measures]
    rows = np.isin(level, shown)
    means = LevelMeans(place[level[rows]], shown.size, account=account[rows]).of(*(each[rows] for each in measures))
    return [
        tuple(
            means.estimate(means.contrast(np.eye(shown.size)[place[one]] - np.eye(shown.size)[0], number))
            if groups[one] > 1
            else None
            for one in range(1, levels)
        )
        for number in range(len(measures))
    ]
