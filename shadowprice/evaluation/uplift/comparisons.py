"""Comparison of the levels of a trial: differences, costs of one extra response, trend and verdict."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.campaign import Side
from shadowprice.curves import check_levels
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.fieller import fieller
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.statistics.level_means import LevelMeans, Means
from shadowprice.evaluation.statistics.means import mean
from shadowprice.evaluation.statistics.metric import Array, as_rows
from shadowprice.evaluation.uplift.evidence import ERROR, LevelEvidence, SideEvidence, Verdict
from shadowprice.evaluation.uplift.shares import Shares

SURE = 0.01
"""Error of the comparisons of ordered levels, which find an effect that rises and falls again."""
NOTHING = Estimate(np.nan, np.nan, np.nan)
NOT_DRAWN = "levels were not drawn at random"


def side_evidence(
    side: Side,
    incentives: ArrayLike,
    rows: LevelMeans,
    response: ArrayLike,
    cost: ArrayLike,
    shared: Shares,
    *,
    names: Sequence[str] = (),
    ordered: bool = True,
) -> SideEvidence:
    """Compare the levels of one side; the sentence and the balance are left empty.

    Args:
        side: of the market.
        incentives: (J,) amounts of the levels, minor units, J ≥ 2.
        rows: levels, weights and clusters of N requests with a final outcome.
        response, cost: (N,) response, and minor units paid.
        shared: shares of the levels, planned and found.
        names: (J,) of the offers, where levels are no amounts of one incentive.
        ordered: whether a higher level is more of the same incentive.

    Ordered levels have a test of trend: the slope of weighted least squares of response on amount, Σ c_j·mean_j with
    c_j ∝ n_j·(amount_j − mean amount). It decides where it is significant at 5 %. Otherwise the
    comparisons with the lowest level decide, corrected by Holm (1979), at 1 %; of levels without order they alone
    decide, at 5 %. All tests are two-sided. The ratios
    (relative difference, cost of one extra response) have Fieller's interval, which holds where the denominator is
    uncertain and is not bounded where that may be 0.

    Raises:
        InvalidInput: fewer than two levels, or other numbers of rows.

    Complexity: O(N log N).
    """
    amounts = check_levels(incentives) if ordered else np.asarray(incentives, dtype=np.int64)
    if amounts.size < 2 or amounts.size != rows.levels:
        raise InvalidInput(f"needs at least two levels, those of the rows, got {amounts.size}", field="incentives")
    columns = as_rows({"y": response, "cost": cost})
    means = rows.of(columns["y"], columns["cost"])
    count = np.bincount(rows.level, minlength=rows.levels)
    accounts = _accounts(rows.level, rows.account, rows.levels)
    known = np.flatnonzero(means.groups > 1)
    base = int(known[0]) if known.size else int(np.flatnonzero(count)[0])
    levels: list[LevelEvidence] = []
    for j in range(rows.levels):
        inside = rows.level == j
        own = [None if ids is None else np.asarray(ids)[inside] for ids in (rows.account, rows.partner)]
        evidence = LevelEvidence(
            level=j,
            name=names[j] if names else "",
            incentive=int(amounts[j]),
            accounts=accounts[j],
            rows=int(count[j]),
            planned=float(shared.planned[j]),
            share=float(shared.found[j]),
            response=_mean(columns["y"][inside], rows.weight[inside], own),
            difference=None,
            relative=None,
            cost=means.estimate(means.contrast(np.eye(rows.levels)[j], 1)) if count[j] else NOTHING,
            cost_each=None,
            why_no_cost="" if j == base else "too few rows",
        )
        levels.append(_compared(evidence, means, base) if j in known and j != base else evidence)
    levels = _adjusted(levels, means, base) if shared.drawn else [_undrawn(level, base) for level in levels]
    trend = _trend(amounts, count, known) if ordered and known.size > 1 else None
    slope = None if trend is None or not shared.drawn else means.estimate(means.contrast(trend))
    p_value = None if trend is None or not shared.drawn else means.p_value(means.contrast(trend))
    return SideEvidence(
        side=side,
        levels=tuple(levels),
        ordered=ordered,
        trend_p=p_value,
        balance=None,
        sample_ratio_p=shared.p_value,
        verdict=_verdict(levels, slope, p_value),
        weighted=not bool(np.ptp(rows.weight) <= 1e-9 * rows.weight.max()),
        clusters=means.clusters,
        slope=slope,
        trend=() if trend is None else tuple(trend.tolist()),
        drawn=shared.drawn,
        partial=shared.partial,
    )


def _accounts(level: NDArray[np.int64], account: ArrayLike | None, levels: int) -> list[int]:
    if account is None:
        return [int(count) for count in np.bincount(level, minlength=levels)]
    of = np.unique(np.asarray(account), return_inverse=True)[1]
    return [int(count) for count in np.bincount(np.unique(of * levels + level) % levels, minlength=levels)]


def _mean(values: Array, weight: Array, own: list[NDArray[np.generic] | None]) -> Estimate:
    if not values.size:
        return NOTHING
    return mean(values, weight, own[0], partner=own[1])


def _compared(found: LevelEvidence, means: Means, base: int) -> LevelEvidence:
    """Add the difference to the lowest level and what follows from it."""
    step = np.zeros(means.groups.size)
    step[found.level], step[base] = 1.0, -1.0
    unit = np.eye(means.groups.size)
    response, cost = means.contrast(step), means.contrast(step, 1)
    difference, degrees = means.estimate(response), means.degrees(response)
    own, lowest = means.contrast(unit[found.level]), means.contrast(unit[base])
    ratio = fieller(
        means.at(own),
        means.at(lowest),
        (means.variance(own), means.variance(lowest)),
        means.covariance(own, lowest),
        degrees=degrees,
    )
    price = fieller(
        means.at(cost),
        means.at(response),
        (means.variance(cost), means.variance(response)),
        means.covariance(cost, response),
        degrees=degrees,
    )
    why = _no_cost(difference, means.at(cost)) or ("" if price else "the extra responses may be none")
    return replace(
        found,
        difference=difference,
        relative=None if ratio is None else Estimate(ratio.value - 1, ratio.low - 1, ratio.high - 1, ratio.level),
        cost_each=None if why else price,
        why_no_cost=why,
    )


def _no_cost(difference: Estimate, cost: float) -> str:
    if difference.high < 0:
        return "it brings fewer responses, not more"
    if not difference.low > 0:
        return "the extra responses may be none"
    return "" if cost > 0 else "it costs nothing more"


def _adjusted(levels: list[LevelEvidence], means: Means, base: int) -> list[LevelEvidence]:
    """Add the p-values of the differences, corrected by Holm."""
    compared = [level.level for level in levels if level.difference is not None]
    raw = {}
    for j in compared:
        step = np.zeros(means.groups.size)
        step[j], step[base] = 1.0, -1.0
        raw[j] = means.p_value(means.contrast(step))
    largest, corrected = 0.0, {}
    for rank, j in enumerate(sorted(compared, key=raw.__getitem__)):
        largest = max(largest, min(1.0, raw[j] * (len(compared) - rank)))
        corrected[j] = largest
    return [replace(level, p_value=corrected.get(level.level)) for level in levels]


def _undrawn(found: LevelEvidence, base: int) -> LevelEvidence:
    """Leave out the results that need levels drawn at random."""
    why = "" if found.level == base else NOT_DRAWN
    return replace(found, difference=None, relative=None, cost_each=None, why_no_cost=why)


def _trend(amounts: NDArray[np.int64], count: NDArray[np.int64], known: NDArray[np.intp]) -> Array:
    weight = np.zeros(amounts.size)
    weight[known] = count[known]
    centered = amounts - float(weight @ amounts) / weight.sum()
    return np.asarray(weight * centered / float(weight @ centered**2))


def _verdict(levels: list[LevelEvidence], slope: Estimate | None, p_value: float | None) -> Verdict:
    if slope is not None and p_value is not None and p_value < ERROR:
        return "identified" if slope.value > 0 else "wrong way"
    level = ERROR if slope is None else SURE
    sure = [entry.surely for entry in levels if entry.surely and entry.p_value is not None and entry.p_value < level]
    if max(sure, default=0.0) > 0:
        return "identified"
    return "wrong way" if sure else "not identified"
