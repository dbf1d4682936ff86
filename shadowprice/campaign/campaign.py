"""A campaign over a window of hours."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from shadowprice.arms import CANARY, COMPANY, UNASSIGNED, WHOLE, Experiment, Holdout
from shadowprice.campaign.budget import Budget
from shadowprice.campaign.draws import check_weights, read_weights
from shadowprice.campaign.fields import check_positive, check_whole, number, real
from shadowprice.campaign.long_term import LongTerm
from shadowprice.campaign.portfolio import PortfolioTerms
from shadowprice.campaign.segments import Segment
from shadowprice.campaign.terms import SIDES, Side, Terms
from shadowprice.checks import require
from shadowprice.currency import OFFERS, USD, Currency, check_code
from shadowprice.curves import AMOUNT
from shadowprice.errors import InvalidInput
from shadowprice.limits import Bound, GroupBudget, Limits, Rule
from shadowprice.limits.attributes import Attributes
from shadowprice.limits.coverage import Coverage, SideRequests
from shadowprice.limits.rules import check_rules

NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}"
NAME_RULE = "must be at most 63 ASCII letters, digits, '-' or '_', the first a letter or digit"
"""A campaign's name is a path, a label of metrics and the name of a served model."""

MODEL_VERSION = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
"""A model's version is a path and part of a feature view's name: it never leads to another folder."""

Policy = Literal["personal", "flat"]
"""Way to decide: by the response of each account, or with the same chances for every account of a side."""
FLAT: Policy = "flat"

Objective = Literal["responses", "value", "margin"]
"""Sum that a campaign maximizes: weighted responses, or minor units of value or margin that they are worth."""
RESPONSES: Objective = "responses"

HOURS_LIMIT = 24 * 366
"""Most hours of a campaign."""

YEARS = (1678, 2261)
"""First and last year of a campaign: 64-bit nanoseconds reach no further."""

NUMBERS = (
    "gap_limit",
    "violation_limit",
    "price_ttl_hours",
    "exploration",
    "alarm_exploration",
    "authorization_ttl_hours",
)
"""Fields of a campaign that are read as numbers and have a default."""

READERS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "experiment": Experiment.from_dict,
    "holdout": Holdout.from_dict,
    "portfolio": PortfolioTerms.from_dict,
    "limits": Limits.from_dict,
    "long_term": LongTerm.from_dict,
    "exploration_weights": read_weights,
}
"""Fields of a campaign that are objects, and what reads each."""

SETTABLE = (
    "exploration",
    "alarm_exploration",
    "exploration_weights",
    "experiment",
    "holdout",
    "policy",
    "portfolio",
)
"""Fields that an installation or a command line may set besides the campaign table."""


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
class Campaign:
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

    def __post_init__(self) -> None:
        require(re.fullmatch(NAME, self.name), "campaign.name", NAME_RULE)
        known = self.sides and not set(self.sides) - set(SIDES)
        require(known, "campaign.sides", f"needs at least one of {SIDES}, got {sorted(self.sides)}")
        require(self.starts_at.tzinfo, "campaign.starts_at", "must carry a time zone; times here are UTC")
        check_code(self.currency, "campaign.currency")
        check_whole(self.hours, 1, "hours", "campaign.hours", HOURS_LIMIT)
        inside = YEARS[0] < self.starts_at.year < YEARS[1]
        require(inside, "campaign.starts_at", f"must be after {YEARS[0]} and before {YEARS[1]}")
        object.__setattr__(self, "starts_at", self.starts_at.astimezone(UTC))
        once = "customer" not in self.sides or self.sides["customer"].most_units == 1
        more = "must be 1: a customer redeems once; only a merchant paid on response may have more"
        require(once, "campaign.sides.customer.most_units", more)
        one = "a delivery has one side: its segments are all that is priced"
        require(len(self.sides) == 1 or not self.segments, "campaign.sides", one)
        for name in ("gap_limit", "violation_limit", "price_ttl_hours", "authorization_ttl_hours"):
            check_positive(getattr(self, name), f"campaign.{name}")
        if self.expected_requests is not None:
            check_whole(self.expected_requests, 1, "requests", "campaign.expected_requests")
        late = self.late_reserve
        check_whole(late, 0, "minor units", "campaign.late_reserve")
        total, limit = self.budget.form == "total", self.budget.limit
        require(not late or total, "campaign.late_reserve", "must be 0: only a total has an amount to set aside from")
        require(not late > limit, "campaign.late_reserve", f"must not be above the limit, {limit:g}")
        if self.portfolio is not None:
            require(total, "campaign.portfolio", "must be left out: only a total can be moved")
            encloses = self.portfolio.floor <= limit <= self.portfolio.cap
            require(encloses, "campaign.portfolio", f"floor and cap must enclose the limit, {limit:g}")
        for name in ("exploration", "alarm_exploration"):
            require(0 <= getattr(self, name) < 1, f"campaign.{name}", "must lie in [0, 1)")
        for name, choices in (("policy", get_args(Policy)), ("objective", get_args(Objective))):
            value = getattr(self, name)
            require(value in choices, f"campaign.{name}", f"must be one of {choices}, got {value!r}")
        self._check_objective()
        paid = not self.segments
        for name in () if paid else ("experiment", "holdout"):
            require(getattr(self, name) is None, f"campaign.{name}", "a delivery has exact sizes and no arms")
        chosen = self.answer_shares.chosen
        require(not chosen <= 0, "campaign.experiment.arms.share", "leaves no requests to the price; lower a share")
        self.limits.check_within(self.name, self.budget.name, self.sides if paid else (), [*self.arms, CANARY])
        object.__setattr__(self, "rules", tuple(self.rules))
        require(paid or not self.rules, "rules", "a delivery has the rules of its segments; leave its rules out")
        require(paid or self.policy != FLAT, "campaign.policy", "a delivery has exact sizes; leave its policy out")
        check_rules(self.rules, self.offer_ids)
        check_weights(self.exploration_weights, self.offer_ids)

    def _check_objective(self) -> None:
        own = [side for side, terms in self.sides.items() if terms.worth]
        predicted = "must be responses: the model of a delivery predicts the value"
        require(not (self.in_money and self.segments), "campaign.objective", predicted)
        offers = "must be responses: the budget counts offers and no money"
        require(not (self.in_money and self.currency == OFFERS), "campaign.objective", offers)
        require(self.in_money or not own, "campaign.objective", "must be value or margin: a side has a worth in money")
        merchants = self.sides.get("merchant")
        both = merchants is not None and merchants.worth == AMOUNT and any(merchants.percent)
        column = (
            f"must be empty where the worth is {AMOUNT}: a percentage costs a part of one order, and the amount of a "
            "unit of a merchant's response is that of many; offer amounts, or name a column of the accounts as worth"
        )
        require(not both, "campaign.sides.merchant.percent", column)
        if self.long_term is not None:
            customers = self.sides.get("customer")
            if customers is None or customers.worth != AMOUNT:
                raise InvalidInput(
                    f"must be {AMOUNT}: long_term predicts what a response of a customer is worth",
                    field="campaign.sides.customer.worth",
                )
            needs = "must be empty: the cost of a percentage needs the amounts of orders, which long_term replaces"
            require(not any(customers.percent), "campaign.long_term", needs)
        least, field = self.least_return, "campaign.least_return"
        require(0 <= least < math.inf, field, f"must be a number that is not negative, got {least}")
        require(not least or self.in_money, field, "must be 0 unless the objective is value or margin")
        earns = "must be 0: a budget per response earns money with responses; choose a total or a mean per account"
        require(not least or self.budget.form != "per_response", field, earns)
        passing = [side for side, terms in self.sides.items() if terms.influence]
        if passing and self.policy == FLAT:
            raise InvalidInput(
                "must be empty: a flat policy gives all accounts the same chances, whatever their partners",
                field=f"campaign.sides.{passing[0]}.influence",
            )
        if own and self.policy == FLAT:
            raise InvalidInput(
                f"must be empty: a flat policy gives all accounts the same chances, whatever {own[0]}s are worth",
                field=f"campaign.sides.{own[0]}.worth",
            )

    @property
    def in_money(self) -> bool:
        """Return whether the objective is in minor units: a price is then the return of the last unit of money."""
        return self.objective != RESPONSES

    @property
    def earned(self) -> str:
        """Name of the objective on a page; a predicted one is never shown as measured."""
        return f"predicted long-term {self.objective}" if self.long_term else self.objective

    @property
    def told_in(self) -> float:
        """Factor from values to those that a person reads: money is read in major units, responses as they are."""
        return 1.0 / Currency.of(self.currency).unit if self.in_money else 1.0

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the arms that requests have, but of a canary's."""
        own = (UNASSIGNED,) if self.experiment is None else tuple(self.experiment.shares)
        return own if self.holdout is None else (*own, COMPANY)

    def without_arms(self) -> Campaign:
        """Return the campaign whose price chooses for every request: nobody explores, has an arm or is held out."""
        return replace(self, exploration=0.0, experiment=None, holdout=None)

    def with_fields(self, fields: Mapping[str, Any]) -> Campaign:
        """Return the campaign with some of :data:`SETTABLE` replaced, as an installation or a command line sets them.

        Raises:
            InvalidInput: another field, or a value that the campaign cannot have.
        """
        unknown = sorted(set(fields) - set(SETTABLE))
        if unknown:
            raise InvalidInput(f"must be of {', '.join(SETTABLE)}, got {', '.join(unknown)}", field="campaign fields")
        # JSON of a pipeline knows one kind of number.
        whole = json.loads(json.dumps(dict(fields)), parse_float=number)
        return Campaign.from_dict(self.to_dict() | whole)

    def in_doubt(self) -> Campaign:
        """Return the campaign while the watch alarms on the served model: it explores more."""
        return replace(self, exploration=max(self.exploration, self.alarm_exploration))

    def moved_by(self, amount: int) -> Campaign:
        """Return the campaign whose limit is changed by the minor units that moves brought it; see record 109."""
        if not amount:
            return self
        limit = max(self.budget.limit + amount, 0)
        late, budget = min(self.late_reserve, int(limit)), replace(self.budget, limit=limit)
        return replace(self, budget=budget, late_reserve=late, portfolio=None)

    def set_aside(self, late: int) -> int:
        """Minor units of the late reserve that are left after ``late`` minor units were captured late."""
        return max(0, self.late_reserve - late)

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

    def draw_weights(self, side: Side) -> NDArray[np.float64]:
        """(J,): weight of each level of a side where one is drawn; only their ratios count."""
        given = self.exploration_weights.get(side)
        names = self.offer_ids[side]
        return np.ones(len(names)) if given is None else np.array([given[name] for name in names], dtype=np.float64)

    @property
    def ends_at(self) -> datetime:
        """First instant after the window."""
        return self.starts_at + timedelta(hours=self.hours)

    def slot(self, at: datetime) -> int:
        """Index of the hour that contains ``at``; negative before the window."""
        return int((at - self.starts_at) // timedelta(hours=1))

    def terms(self, side: Side) -> Terms:
        """Return the terms of one side; raise :class:`InvalidInput` for a side that the campaign lacks."""
        if side not in self.sides:
            raise InvalidInput(
                f"campaign {self.name!r} has no side {side!r}; it has {sorted(self.sides)}", field="side"
            )
        return self.sides[side]

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Segments of a delivery; empty of another campaign."""
        return tuple(segment for terms in self.sides.values() for segment in terms.segments)

    @property
    def priced(self) -> tuple[str, ...]:
        """Names that have a price: the budget and the further ones, or every segment of a delivery."""
        names = tuple(segment.name for segment in self.segments)
        return names or (self.budget.name, *(group_budget.name for group_budget in self.group_budgets))

    @cached_property
    def group_budgets(self) -> tuple[GroupBudget, ...]:
        """Further budgets that have a price: all but those of one arm."""
        return tuple(budget for budget in self.limits.budgets if budget.arm is None)

    def read_per(self, name: str) -> int:
        """Factor from the price of a limit to the one that a person reads: per major unit, or per second outcome."""
        outcomes = (limit.name for limit in self.group_budgets if limit.outcome)
        return 1 if name in outcomes else Currency.of(self.currency).unit

    def bounds(self, at: datetime) -> tuple[Bound, ...]:
        """Bound of each further limit at a time, budgets first; no amount where the ledger does not stop at it."""
        before = {budget.name: self.granted_before(budget, at) for budget in self.limits.budgets if budget.rolls_over}
        return tuple(bound.above(before.get(bound.name, 0)) for bound in self.limits.bounds)

    def granted_before(self, budget: GroupBudget, at: datetime) -> int:
        """Minor units of the periods of the window before the one of ``at``, of a budget that rolls over; else 0."""
        inside = min(max(at, self.starts_at), self.ends_at - timedelta(microseconds=1))
        return self.limits.granted_before(budget, self.starts_at, inside)

    def coverage(self, attributes: Mapping[Side, Attributes] | None = None) -> Coverage:
        """Return the coverage: the budgets that count a request, and the levels that rules allow it."""
        offers = {
            side: tuple(zip(names, self.sides[side].incentives, strict=True)) for side, names in self.offer_ids.items()
        }
        of_arms = (budget for budget in self.limits.budgets if budget.arm is not None)
        worths = {side: terms.worth for side, terms in self.sides.items() if terms.worth}
        budgets = (*self.group_budgets, *of_arms)
        influences = {side: terms.influence for side, terms in self.sides.items() if terms.influence}
        known, caps = attributes or {}, self.limits.caps
        return Coverage(budgets, self.rules, offers, known, caps, worths=worths, influences=influences)

    @cached_property
    def offer_ids(self) -> dict[Side, tuple[str, ...]]:
        """side → identifier of the offer of each level: of the offer table, else ``<side>-<incentive>``."""
        return {
            side: tuple(segment.name for segment in terms.segments)
            or terms.offers
            or tuple(f"{side}-{incentive}" for incentive in terms.incentives)
            for side, terms in self.sides.items()
        }

    def charges(
        self,
        side: Side,
        response: NDArray[np.floating[Any]],
        bits: NDArray[np.uint32] | None = None,
        amounts: NDArray[np.floating[Any]] | None = None,
        guards: Mapping[str, NDArray[np.float64]] = MappingProxyType({}),
    ) -> NDArray[np.float64]:
        """(K, J, N): amount that each level takes of each name in :attr:`priced`: money, or 1 for its segment.

        A budget of a second outcome is charged the expected one.

        Args:
            side: of the requests.
            response: (J, N), their curves.
            bits: (N,), the further budgets that count each (:meth:`Coverage.bits`); None: by the side alone.
            amounts: of orders, as in :meth:`Terms.expected_unit_costs`.
            guards: name → (J,), expected second outcomes (:attr:`Curves.guards`).

        Raises:
            InvalidInput: an outcome that a budget of the side needs is not among the guards.
        """
        segments = self.terms(side).segments
        if not segments:
            net = self.net_cost(side, response, amounts=amounts)
            if not self.group_budgets:
                return net[None]
            if bits is None:
                bits = self.coverage().bits(SideRequests(side, [""] * net.shape[1]))
            own = (self.net_cost(side, response, limit, amounts, guards) for limit in self.group_budgets)
            counted = [np.where(bits >> np.uint32(k) & np.uint32(1), cost, 0.0) for k, cost in enumerate(own)]
            return np.stack([net, *counted])
        return np.broadcast_to(np.eye(len(segments))[:, :, None], (len(segments), *np.shape(response)))

    def net_cost(
        self,
        side: Side,
        response: NDArray[np.floating[Any]],
        budget: Budget | GroupBudget | None = None,
        amounts: NDArray[np.floating[Any]] | None = None,
        guards: Mapping[str, NDArray[np.float64]] = MappingProxyType({}),
    ) -> NDArray[np.float64]:
        """(J, N): the cost that the price of a budget multiplies at decision time, ``g − B·m`` (S0 eq. 19–20).

        The allowance of a total or per-account budget is the same at every level, so it cancels.
        """
        terms, budget = self.terms(side), budget or self.budget
        if isinstance(budget, GroupBudget) and budget.outcome:
            return budget.expected_outcome(side, np.shape(response), guards)
        cost = terms.cost(response, amounts)
        if budget.form == "per_response":
            cost -= budget.limit * terms.measure(response)
        return cost

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; :meth:`from_dict` is the inverse."""
        return {
            "name": self.name,
            "sides": {side: terms.to_dict() for side, terms in self.sides.items()},
            "budget": asdict(self.budget),
            "starts_at": self.starts_at.isoformat(),
            "hours": self.hours,
            **{name: getattr(self, name) for name in NUMBERS},
            "pacer": self.pacer,
            "labels": dict(self.labels),
            **({} if self.expected_requests is None else {"expected_requests": self.expected_requests}),
            **({} if self.currency == USD else {"currency": self.currency}),
            **({"late_reserve": self.late_reserve} if self.late_reserve else {}),
            **({} if self.experiment is None else {"experiment": self.experiment.to_dict()}),
            **({} if self.holdout is None else {"holdout": asdict(self.holdout)}),
            **({"limits": self.limits.to_dict()} if self.limits else {}),
            **({"rules": [rule.to_dict() for rule in self.rules]} if self.rules else {}),
            **({"objective": self.objective} if self.in_money else {}),
            **({"least_return": self.least_return} if self.least_return else {}),
            **({} if self.policy == "personal" else {"policy": self.policy}),
            **({} if self.long_term is None else {"long_term": self.long_term.to_dict()}),
            **({} if self.portfolio is None else {"portfolio": self.portfolio.to_dict()}),
            **(
                {"exploration_weights": {side: dict(weights) for side, weights in self.exploration_weights.items()}}
                if self.exploration_weights
                else {}
            ),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Campaign:
        """Build a campaign from what :meth:`to_dict` gave, checking every field."""
        try:
            optional: dict[str, Any] = {name: real(data[name], f"campaign.{name}") for name in NUMBERS if name in data}
            named = ("expected_requests", "late_reserve", "objective", "policy", "currency")
            optional |= {name: data[name] for name in named if name in data}
            if "least_return" in data:
                optional["least_return"] = real(data["least_return"], "campaign.least_return")
            optional |= {name: read(data[name]) for name, read in READERS.items() if data.get(name) is not None}
            optional["rules"] = tuple(map(Rule.from_dict, data.get("rules", ())))
            return cls(
                name=data["name"],
                sides={side: Terms.from_dict(terms) for side, terms in data["sides"].items()},
                budget=Budget(**data["budget"]),
                starts_at=datetime.fromisoformat(data["starts_at"]),
                hours=data["hours"],
                pacer=str(data.get("pacer", "closing")),
                labels=dict(data.get("labels", {})),
                **optional,
            )
        except KeyError as missing:
            raise InvalidInput("is missing", field=f"campaign.{missing.args[0]}") from None
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InvalidInput(f"is not a campaign: {error}", field="campaign") from error
