"""Fields of a campaign over a window of hours, and what follows from them alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from shadowprice.arms import COMPANY, UNASSIGNED, WHOLE, Experiment, Holdout
from shadowprice.campaign.budget import Budget
from shadowprice.campaign.choices import RESPONSES, Objective, Policy
from shadowprice.campaign.long_term import LongTerm
from shadowprice.campaign.portfolio import PortfolioTerms
from shadowprice.campaign.terms import Terms
from shadowprice.campaign.terms_fields import Side
from shadowprice.currency import USD
from shadowprice.limits import Limits, Rule


@dataclass(frozen=True)
class AnswerShares:
    """Shares of the requests by how their level is found; they sum to 1.

    chosen  the level that price and model choose
    drawn   a draw by the weights of the levels
    held    the lowest level, of a holdout
    """

    chosen: float
    drawn: float
    held: float


@dataclass(frozen=True, kw_only=True)
class CampaignFields:
    """A campaign over a window of whole hours (slots), starting at ``starts_at`` (UTC).

    gap_limit and violation_limit bound what a published price's certificate may show; price_ttl_hours is how long a
    price may be used before answers are marked stale; authorization_ttl_hours how long money stays reserved for an
    incentive without a reported outcome. exploration is the share ε of requests whose level is drawn, so that every
    level keeps being tried with a known propensity; alarm_exploration is the least ε while the watch alarms on the
    served model. exploration_weights (side → offer → weight above 0) makes some levels more likely wherever one is
    drawn; a side that is missing draws uniformly. pacer names how the budget is paced
    (``shadowprice.pacing.pacers``). expected_requests is how many requests of all sides together the window is expected
    to have; None: as many as in the past. late_reserve is how many minor units of a total are set aside for what is
    redeemed after its authorization expired. experiment divides the accounts into arms; None: nobody has an arm.
    holdout names the accounts that no campaign of the company treats; None: there are none.
    limits are further budgets and caps beside the budget. rules say which offers an account may not be given.
    objective names the sum that is maximized: ``responses``, or money. In money the worth of a response is its side's
    weight in minor units, times the account's own where the terms name a column of it, and a price is the return of
    the last unit of money. least_return is the least that it may fall to (1: the last unit of money returns itself):
    the rest of the budget stays unspent.
    policy says what a model learns: ``personal``, a curve for each account; ``flat``, one curve for all, from the
    effects that the log shows. long_term names a late outcome that early ones predict: a response of a customer is then
    worth what it is predicted to add to it.
    currency is the ISO 4217 code of all amounts, which are in its minor unit; or ``offers``, where budget and costs are
    numbers of offers.
    portfolio says how much of the budget may be moved to and from other campaigns; None: nothing.
    """

    name: str
    sides: Mapping[Side, Terms]
    budget: Budget
    starts_at: datetime
    hours: int = 24
    gap_limit: float = 1e-6
    violation_limit: float = 1e-9
    price_ttl_hours: float = 2.0
    exploration: float = 0.0
    alarm_exploration: float = 0.0
    exploration_weights: Mapping[Side, Mapping[str, float]] = field(default_factory=dict)
    authorization_ttl_hours: float = 72.0
    pacer: str = "closing"
    expected_requests: int | None = None
    late_reserve: int = 0
    experiment: Experiment | None = None
    holdout: Holdout | None = None
    limits: Limits = field(default_factory=Limits)
    rules: tuple[Rule, ...] = ()
    objective: Objective = RESPONSES
    least_return: float = 0.0
    policy: Policy = "personal"
    labels: Mapping[str, str] = field(default_factory=dict)
    currency: str = USD
    long_term: LongTerm | None = None
    portfolio: PortfolioTerms | None = None

    @property
    def in_money(self) -> bool:
        """Return whether the objective is in minor units: a price is then the return of the last unit of money."""
        return self.objective != RESPONSES

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the arms that requests have, but of a canary's."""
        own = (UNASSIGNED,) if self.experiment is None else tuple(self.experiment.shares)
        return own if self.holdout is None else (*own, COMPANY)

    @property
    def answer_shares(self) -> AnswerShares:
        """Shares of the requests to come that are chosen, drawn and held, by exploration, arms and holdout."""
        test = self.experiment
        out = self.holdout.share / WHOLE if self.holdout else 0.0
        held, drawn = (test.kind_share("holdout"), test.kind_share("explore")) if test else (0.0, 0.0)
        policy = 1.0 - held - drawn
        return AnswerShares(
            chosen=(1.0 - out) * policy * (1.0 - self.exploration),
            drawn=(1.0 - out) * (drawn + policy * self.exploration),
            held=out + (1.0 - out) * held,
        )

    @cached_property
    def offer_ids(self) -> dict[Side, tuple[str, ...]]:
        """side → identifier of the offer of each level: of the offer table, else ``<side>-<incentive>``."""
        return {
            side: tuple(segment.name for segment in terms.segments)
            or terms.offers
            or tuple(f"{side}-{incentive}" for incentive in terms.incentives)
            for side, terms in self.sides.items()
        }
