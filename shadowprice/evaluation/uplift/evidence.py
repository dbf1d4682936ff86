"""Evidence of a trial: what each level of an incentive brought and cost, before any model."""

from dataclasses import dataclass
from typing import Literal

from shadowprice.campaign import Side
from shadowprice.currency import Currency
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.uplift.balance import Balance

Verdict = Literal["identified", "not identified", "wrong way"]
ERROR = 0.05
"""Probability that the test of trend, or of unordered levels any of the comparisons, finds an effect that is none."""
FEW = 0.1
"""Largest share of responses that calls for one more decimal."""


@dataclass(frozen=True)
class LevelEvidence:
    """One level of an incentive in the log.

    level         index of the level
    name          of its offer, where levels are offers and not amounts of one incentive
    incentive     its amount, minor units
    accounts      that were given it, or clusters of them; ``rows`` requests
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
    verdict         whether the response rises with the incentive; not identified where accounts were not alike before
    claim           the verdict in words, with what limits it
    figures         of the level that decides it, in words
    weighted        whether rows are weighted by inverse propensity
    clusters        units, or partners where they are fewer
    unit            what is independent: accounts, or clusters of them
    drawn_by        category whose accounts all had one level, although no cluster says so; empty where there is none
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
    weighted: bool
    clusters: int
    claim: str = ""
    figures: str = ""
    slope: Estimate | None = None
    trend: tuple[float, ...] = ()
    drawn: bool = True
    partial: tuple[int, ...] = ()
    plan: str = ""
    unit: str = "accounts"
    drawn_by: str = ""

    @property
    def unlike(self) -> bool:
        """Return whether the accounts of the levels were not alike before the trial, so no difference is an effect.

        Rows with weights are left to the reader: where a part of them had no chance of a level, no weight makes the
        accounts of the levels alike.
        """
        return self.balance is not None and self.balance.unlike and not self.weighted

    @property
    def sentence(self) -> str:
        """The verdict with its figures."""
        return f"{self.claim} {self.figures}".rstrip()

    @property
    def rows(self) -> int:
        """Requests with a final outcome."""
        return sum(level.rows for level in self.levels)

    @property
    def lowest(self) -> LevelEvidence:
        """Lowest level that has rows."""
        return next(level for level in self.levels if level.rows)

    @property
    def decimals(self) -> int:
        """Decimals with which shares of this side are written in percent: two where few respond."""
        return 2 if max(level.response.value for level in self.levels if level.rows) < FEW else 1

    @property
    def shown(self) -> LevelEvidence:
        """Level that decides a sentence: the surest of those that differ, else the highest that has rows."""
        others = [level for level in self.levels if level.difference is not None]
        sign = -1.0 if self.verdict == "wrong way" else 1.0
        sure = [other for other in others if other.surely and sign * other.surely > 0]
        if self.ordered and sure and others[-1] in sure:
            return others[-1]
        return min(sure, key=lambda each: each.p_value or 0.0) if sure else (others or [self.lowest])[-1]
