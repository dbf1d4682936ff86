"""Evidence of a trial: what each level of an incentive brought and cost, before any model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.campaign import Side
from shadowprice.currency import Currency
from shadowprice.curves import check_levels
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.fieller import fieller
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.statistics.level_means import LevelMeans, Means
from shadowprice.evaluation.statistics.means import mean
from shadowprice.evaluation.statistics.metric import Array, as_rows
from shadowprice.evaluation.uplift.balance import Balance
from shadowprice.evaluation.uplift.shares import Shares

Verdict = Literal["identified", "not identified", "wrong way"]
ERROR = 0.05
"""Probability that the test of trend, or of unordered levels any of the comparisons, finds an effect that is none."""
SURE = 0.01
"""The same of the comparisons of ordered levels, which find an effect that rises and falls again."""
FEW = 0.1
"""Largest share of responses that calls for one more decimal."""
NOTHING = Estimate(np.nan, np.nan, np.nan)
NOT_DRAWN = "levels were not drawn at random"


@dataclass(frozen=True)
class LevelEvidence:
    """One level of an incentive in the log.

    level         index of the level
    name          of its offer, where levels are offers and not amounts of one incentive
    incentive     its amount, minor units
    accounts      that were given it; ``rows`` requests
    planned       share of the requests by the propensities; NaN where no row has it
    share         share of the requests that was found
    response      mean response
    difference    of the response to the lowest level that has rows; None of that level itself
    relative      the same as a share of the lowest level's response; None where that may be 0
    cost          minor units paid per request
    cost_each     minor units of one extra response; None where it has no interval, with the reason in ``why_no_cost``
    p_value       of the difference, adjusted for the number of levels (Holm); None of the lowest level
    """

    level: int
    name: str
    incentive: int
    accounts: int
    rows: int
    planned: float
    share: float
    response: Estimate
    difference: Estimate | None
    relative: Estimate | None
    cost: Estimate
    cost_each: Estimate | None
    why_no_cost: str = ""
    p_value: float | None = None

    def written(self, currency: Currency) -> str:
        """Name of the offer, or its amount of money."""
        return self.name or currency.write(self.incentive)

    @property
    def surely(self) -> float:
        """Difference to the lowest level where its adjusted p-value is below :data:`ERROR`; else 0."""
        return self.difference.value if self.difference and self.p_value is not None and self.p_value < ERROR else 0.0


@dataclass(frozen=True)
class SideEvidence:
    """Evidence of one side of the market.

    levels          one entry per level
    ordered         whether a higher level is more of the same incentive
    trend_p         two-sided p-value of the slope; None of levels without order
    slope           of the response, per minor unit of incentive; None of levels without order
    trend           (J,) coefficients of the levels' mean responses that give the slope
    balance         of features from before the trial; None where there are none
    sample_ratio_p  p-value of the shares found against those planned; None where nothing was drawn
    verdict         whether the response rises with the incentive
    sentence        the verdict in words
    weighted        whether rows are weighted by inverse propensity
    clusters        accounts, or partners where they are fewer
    drawn           whether levels were drawn at random
    partial         levels that a part of the requests had no chance of: their means are those of other requests
    plan            command that plans a trial that would identify the effect; empty where none is needed or would help
    """

    side: Side
    levels: tuple[LevelEvidence, ...]
    ordered: bool
    trend_p: float | None
    balance: Balance | None
    sample_ratio_p: float | None
    verdict: Verdict
    sentence: str
    weighted: bool
    clusters: int
    slope: Estimate | None = None
    trend: tuple[float, ...] = ()
    drawn: bool = True
    partial: tuple[int, ...] = ()
    plan: str = ""

    @property
    def rows(self) -> int:
        """Requests with a final outcome."""
        return sum(each.rows for each in self.levels)

    @property
    def lowest(self) -> LevelEvidence:
        """Lowest level that has rows."""
        return next(each for each in self.levels if each.rows)

    @property
    def decimals(self) -> int:
        """Decimals with which shares of this side are written in percent: two where few respond."""
        return 2 if max(each.response.value for each in self.levels if each.rows) < FEW else 1

    @property
    def shown(self) -> LevelEvidence:
        """Level that decides a sentence: the surest of those that differ, else the highest that has rows."""
        others = [each for each in self.levels if each.difference is not None]
        sign = -1.0 if self.verdict == "wrong way" else 1.0
        sure = [each for each in others if each.surely and sign * each.surely > 0]
        if self.ordered and sure and others[-1] in sure:
            return others[-1]
        return min(sure, key=lambda each: each.p_value or 0.0) if sure else (others or [self.lowest])[-1]


def side_evidence(
    side: Side,
    incentives: ArrayLike,
    rows: LevelMeans,
    response: ArrayLike,
    cost: ArrayLike,
    shared: Shares,
    *,
    account: ArrayLike | None = None,
    partner: ArrayLike | None = None,
    names: Sequence[str] = (),
    ordered: bool = True,
    balance: Balance | None = None,
) -> SideEvidence:
    """Compare the levels of one side; the sentence is left empty.

    Args:
        side: of the market.
        incentives: (J,) amounts of the levels, minor units, J ≥ 2.
        rows: levels, weights and clusters of N requests with a final outcome.
        response, cost: (N,) response, and minor units paid.
        shared: shares of the levels, planned and found.
        account, partner: (N,) identifiers that ``rows`` was made with.
        names: (J,) of the offers, where levels are no amounts of one incentive.
        ordered: whether a higher level is more of the same incentive.
        balance: of features from before the trial.

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
    accounts = _accounts(rows.level, account, rows.levels)
    known = np.flatnonzero(means.groups > 1)
    base = int(known[0]) if known.size else int(np.flatnonzero(count)[0])
    levels: list[LevelEvidence] = []
    for j in range(rows.levels):
        inside = rows.level == j
        own = [None if ids is None else np.asarray(ids)[inside] for ids in (account, partner)]
        found = LevelEvidence(
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
        levels.append(_compared(found, means, base) if j in known and j != base else found)
    levels = _adjusted(levels, means, base) if shared.drawn else [_undrawn(each, base) for each in levels]
    trend = _trend(amounts, count, known) if ordered and known.size > 1 else None
    slope = None if trend is None or not shared.drawn else means.estimate(means.contrast(trend))
    p_value = None if trend is None or not shared.drawn else means.p_value(means.contrast(trend))
    return SideEvidence(
        side=side,
        levels=tuple(levels),
        ordered=ordered,
        trend_p=p_value,
        balance=balance,
        sample_ratio_p=shared.p_value,
        verdict=_verdict(levels, slope, p_value),
        sentence="",
        weighted=not bool(np.ptp(rows.weight) <= 1e-9 * rows.weight.max()),
        clusters=means.clusters,
        slope=slope,
        trend=() if trend is None else tuple(trend.tolist()),
        drawn=shared.drawn,
        partial=shared.partial,
    )


def _accounts(level: NDArray[np.int64], account: ArrayLike | None, levels: int) -> list[int]:
    if account is None:
        return np.bincount(level, minlength=levels).tolist()
    of = np.unique(np.asarray(account), return_inverse=True)[1]
    return np.bincount(np.unique(of * levels + level) % levels, minlength=levels).tolist()


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
    each = fieller(
        means.at(cost),
        means.at(response),
        (means.variance(cost), means.variance(response)),
        means.covariance(cost, response),
        degrees=degrees,
    )
    why = _no_cost(difference, means.at(cost)) or ("" if each else "the extra responses may be none")
    return replace(
        found,
        difference=difference,
        relative=None if ratio is None else Estimate(ratio.value - 1, ratio.low - 1, ratio.high - 1, ratio.level),
        cost_each=None if why else each,
        why_no_cost=why,
    )


def _no_cost(difference: Estimate, cost: float) -> str:
    if difference.high < 0:
        return "it brings fewer responses than the lowest level"
    if not difference.low > 0:
        return "the extra responses may be none"
    return "" if cost > 0 else "it costs no more than the lowest level"


def _adjusted(levels: list[LevelEvidence], means: Means, base: int) -> list[LevelEvidence]:
    """Add the p-values of the differences, corrected by Holm."""
    compared = [each.level for each in levels if each.difference is not None]
    raw = {}
    for j in compared:
        step = np.zeros(means.groups.size)
        step[j], step[base] = 1.0, -1.0
        raw[j] = means.p_value(means.contrast(step))
    largest, corrected = 0.0, {}
    for rank, j in enumerate(sorted(compared, key=raw.__getitem__)):
        largest = max(largest, min(1.0, raw[j] * (len(compared) - rank)))
        corrected[j] = largest
    return [replace(each, p_value=corrected.get(each.level)) for each in levels]


def _undrawn(found: LevelEvidence, base: int) -> LevelEvidence:
    """Leave out what only a draw at random can tell."""
    why = "" if found.level == base else NOT_DRAWN
    return replace(found, difference=None, relative=None, cost_each=None, why_no_cost=why)


def _trend(amounts: NDArray[np.int64], count: NDArray[np.int64], known: NDArray[np.intp]) -> Array:
    weight = np.zeros(amounts.size)
    weight[known] = count[known]
    centred = amounts - float(weight @ amounts) / weight.sum()
    return np.asarray(weight * centred / float(weight @ centred**2))


def _verdict(levels: list[LevelEvidence], slope: Estimate | None, p_value: float | None) -> Verdict:
    if slope is not None and p_value is not None and p_value < ERROR:
        return "identified" if slope.value > 0 else "wrong way"
    level = ERROR if slope is None else SURE
    sure = [each.surely for each in levels if each.surely and each.p_value is not None and each.p_value < level]
    if max(sure, default=0.0) > 0:
        return "identified"
    return "wrong way" if sure else "not identified"
