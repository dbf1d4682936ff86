"""A campaign: who is offered what, how it is charged, and the budget it must respect."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from shadowprice.arms import CANARY, UNASSIGNED, Experiment
from shadowprice.curves import check_levels
from shadowprice.errors import InvalidInput
from shadowprice.limits import MOST_AMOUNT, GroupBudget, Limits, Rule
from shadowprice.limits import BudgetForm as BudgetForm
from shadowprice.limits.attributes import Attributes
from shadowprice.limits.coverage import Coverage
from shadowprice.limits.rules import check_rules

Side = Literal["customer", "merchant"]
SIDES: tuple[Side, ...] = get_args(Side)

CostBasis = Literal["on_response", "on_grant"]
NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}"
NAME_RULE = "must be at most 63 ASCII letters, digits, '-' or '_', the first a letter or digit"
"""A campaign's name is a path, a label of metrics and the name of a served model."""

MODEL_VERSION = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
"""A model's version is a path and part of a feature view's name: it never leads to another folder."""

MOST_RESPONSE = 100.0
"""Largest response of one outcome where the terms name none."""

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
    "authorisation_ttl_hours",
)
"""Fields of a campaign that are read as numbers and have a default."""


SETTABLE = ("exploration", "alarm_exploration", "experiment")
"""Fields that an installation or a command line may set besides the campaign table."""


def _number(text: str) -> float:
    value = float(text)
    return int(value) if value.is_integer() else value


def _real(given: Any, field: str) -> float:
    try:
        return float(given)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"must be a number: {error}", field=field) from error


def _check_whole(given: object, least: int, noun: str, field: str, most: int = MOST_AMOUNT) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        bound = f"at least {least}" if least else "not negative"
        raise InvalidInput(f"must be a whole number of {noun}, {bound}, got {given!r}", field=field)
    if given > most:
        raise InvalidInput(f"must be at most {most} {noun}", field=field)


def _check_positive(given: float, field: str) -> None:
    if not (np.isfinite(given) and given > 0):
        raise InvalidInput("must be a positive number", field=field)


@dataclass(frozen=True, kw_only=True)
class Segment:
    """One offer of a guaranteed delivery, such as a fund (S2).

    name        of the offer
    demand      how many accounts exactly are to be given it
    risk_level  the least risk tolerance of an account that may be given it; None: open to all
    """

    name: str
    demand: int
    risk_level: int | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidInput("must not be empty", field="segment.name")
        _check_whole(self.demand, 0, "accounts", "segment.demand")


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Incentives and terms of one side of the market.

    levels      incentive values in minor units, ascending; equal ones are different offers of one amount; of a
                delivery the numbers of the segments, 0, 1, …
    cost_basis  ``on_response``: the incentive is paid only on response (g = r·f, m = f);
                ``on_grant``: it is paid for certain (g = r, m = 1). S0 charges both ways:
                eq. 16 the first, eq. 17–20 the second.
    weight      worth of one unit of this side's response in the objective
    most_units  units of response that one answer is paid for at most, of a merchant paid on response; so many
                incentives are held for each of its authorizations, and further units cost nothing
    most_response  largest response that one outcome of this side may report: a budget per response grows with it
    segments    of a guaranteed delivery: what each level is; nothing is paid for it
    offers      identifier of each level's offer; empty: side and incentive, or the names of the segments
    """

    levels: tuple[int, ...]
    cost_basis: CostBasis = "on_response"
    weight: float = 1.0
    most_units: int = 1
    most_response: float = MOST_RESPONSE
    segments: tuple[Segment, ...] = ()
    offers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", tuple(int(level) for level in check_levels(self.levels, ordered=False)))
        if self.cost_basis not in get_args(CostBasis):
            raise InvalidInput(f"must be one of {get_args(CostBasis)}, got {self.cost_basis!r}", field="cost_basis")
        _check_positive(self.weight, "weight")
        _check_positive(self.most_response, "most_response")
        _check_whole(self.most_units, 1, "units", "most_units")
        if self.most_units > 1 and (self.cost_basis != "on_response" or self.segments):
            raise InvalidInput("must be 1 where nothing is paid on response", field="most_units")
        if self.most_units * self.levels[-1] > MOST_AMOUNT:
            raise InvalidInput(
                f"times the largest level must not be above {MOST_AMOUNT} minor units", field="most_units"
            )
        if self.segments and self.levels != tuple(range(len(self.segments))):
            raise InvalidInput("must number the segments 0, 1, …", field="levels")
        if len({segment.name for segment in self.segments}) < len(self.segments):
            raise InvalidInput("names must differ", field="segments")
        if self.offers and (self.segments or not all(self.offers) or len(self.offers) != len(self.levels)):
            raise InvalidInput("must name each level, and none of a delivery: its segments have names", field="offers")
        if len(set(self.offers)) < len(self.offers):
            raise InvalidInput("names must differ", field="offers")

    @property
    def incentives(self) -> tuple[int, ...]:
        """Incentive of each level in minor units: 0 in a delivery."""
        return (0,) * len(self.segments) if self.segments else self.levels

    @property
    def reserved(self) -> tuple[int, ...]:
        """Largest cost of an authorization at each level, minor units: the held amount until it is settled."""
        return tuple(self.most_units * incentive for incentive in self.incentives)

    def paid_units(self, response: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Incentives paid for measured responses, of their shape: up to ``most_units`` of them, or one for certain."""
        if self.cost_basis == "on_grant":
            return np.ones(np.shape(response))
        return np.minimum(np.asarray(response, dtype=np.float64), self.most_units)

    def value(self, response: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """(J, N): the worth of each level."""
        return self.weight * np.asarray(response, dtype=np.float64)

    def cost(self, response: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """(J, N): expected money paid at each level, in minor units (S0 eq. 16 or 17).

        Of a merchant paid on response an upper bound where more than ``most_units`` can come: a mean does not tell how
        often. The solve then spends less than it may, by what ``spend_ratio`` of the price record has not learned yet.
        """
        paid = np.asarray(self.incentives, dtype=np.float64)[:, None]
        if self.cost_basis == "on_grant":
            return np.broadcast_to(paid, np.shape(response)).copy()
        return paid * np.asarray(response, dtype=np.float64)

    def measure(self, response: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """(J, N): denominator of an average budget, the ``m`` of S0 eq. 17."""
        if self.cost_basis == "on_grant":
            return np.ones(np.shape(response))
        return np.asarray(response, dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """One limit on the money of a campaign.

    form   ``total``: the sum of cost over the window; ``per_account``: mean cost per request;
           ``per_response``: cost per unit of response (the paper's B)
    limit  minor units; an integer for a total
    """

    name: str = "budget"
    form: BudgetForm = "total"
    limit: float

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidInput("must not be empty", field="budget.name")
        if isinstance(self.limit, bool) or not isinstance(self.limit, int | float):
            raise InvalidInput(f"must be a number, got {self.limit!r}", field="budget.limit")
        if self.form not in get_args(BudgetForm):
            raise InvalidInput(f"must be one of {get_args(BudgetForm)}, got {self.form!r}", field="budget.form")
        if not 0 <= self.limit <= sys.float_info.max:
            raise InvalidInput("must be a finite amount of minor units, not negative", field="budget.limit")
        if self.form == "total" and self.limit != int(self.limit):
            raise InvalidInput("a total is a whole number of minor units", field="budget.limit")


@dataclass(frozen=True)
class AnswerShares:
    """Shares of the requests by how their level is found; they sum to 1.

    chosen  the level that price and model choose
    drawn   a uniform draw
    held    the lowest level, of a holdout
    """

    chosen: float
    drawn: float
    held: float


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """A campaign over a window of whole hours (slots), starting at ``starts_at`` (UTC).

    gap_limit and violation_limit bound what a published price's certificate may show; price_ttl_hours is how long a
    price may be used before answers are marked stale; authorisation_ttl_hours how long money stays reserved for an
    incentive without a reported outcome. exploration is the share ε of requests whose level is drawn uniformly, so that
    every level keeps being tried with a known propensity; alarm_exploration is the least ε while the watch alarms on
    the served model. pacer names how the budget is paced
    (``shadowprice.pacing.pacers``). expected_requests is how many requests of all sides together the window is expected
    to have; None: as many as in the past. late_reserve is how many minor units of a total are set aside for what is
    redeemed after its authorization expired. experiment divides the accounts into arms; None: nobody has an arm.
    limits are further budgets and caps beside the budget. rules say which offers an account may not be given.
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
    authorisation_ttl_hours: float = 72.0
    pacer: str = "closing"
    expected_requests: int | None = None
    late_reserve: int = 0
    experiment: Experiment | None = None
    limits: Limits = field(default_factory=Limits)
    rules: tuple[Rule, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not re.fullmatch(NAME, self.name):
            raise InvalidInput(NAME_RULE, field="campaign.name")
        unknown = set(self.sides) - set(SIDES)
        if unknown or not self.sides:
            raise InvalidInput(f"needs at least one of {SIDES}, got {sorted(self.sides)}", field="campaign.sides")
        if self.starts_at.tzinfo is None:
            raise InvalidInput("must carry a time zone; times here are UTC", field="campaign.starts_at")
        _check_whole(self.hours, 1, "hours", "campaign.hours", HOURS_LIMIT)
        if not YEARS[0] < self.starts_at.year < YEARS[1]:
            raise InvalidInput(f"must be after {YEARS[0]} and before {YEARS[1]}", field="campaign.starts_at")
        object.__setattr__(self, "starts_at", self.starts_at.astimezone(UTC))
        if "customer" in self.sides and self.sides["customer"].most_units != 1:
            raise InvalidInput(
                "must be 1: a customer redeems once; only a merchant paid on response may have more",
                field="campaign.sides.customer.most_units",
            )
        if len(self.sides) > 1 and any(terms.segments for terms in self.sides.values()):
            raise InvalidInput("a delivery has one side: its segments are all that is priced", field="campaign.sides")
        for name in ("gap_limit", "violation_limit", "price_ttl_hours", "authorisation_ttl_hours"):
            _check_positive(getattr(self, name), f"campaign.{name}")
        if self.expected_requests is not None:
            _check_whole(self.expected_requests, 1, "requests", "campaign.expected_requests")
        late = self.late_reserve
        _check_whole(late, 0, "minor units", "campaign.late_reserve")
        if late and self.budget.form != "total":
            raise InvalidInput("must be 0: only a total has an amount to set aside from", field="campaign.late_reserve")
        if late > self.budget.limit:
            raise InvalidInput(f"must not be above the limit, {self.budget.limit:g}", field="campaign.late_reserve")
        for name in ("exploration", "alarm_exploration"):
            if not 0 <= getattr(self, name) < 1:
                raise InvalidInput("must lie in [0, 1)", field=f"campaign.{name}")
        if self.experiment is not None:
            self._check_experiment()
        paid = not any(terms.segments for terms in self.sides.values())
        arms = [UNASSIGNED] if self.experiment is None else list(self.experiment.shares)
        self.limits.check_within(self.name, self.budget.name, self.sides if paid else (), [*arms, CANARY])
        object.__setattr__(self, "rules", tuple(self.rules))
        if self.rules and not paid:
            raise InvalidInput("a delivery has the rules of its segments; leave its rules out", field="rules")
        check_rules(self.rules, self.offer_ids)

    def _check_experiment(self) -> None:
        if any(terms.segments for terms in self.sides.values()):
            raise InvalidInput("a delivery has exact sizes and no arms", field="campaign.experiment")
        if self.answer_shares.chosen <= 0:
            raise InvalidInput("leaves no requests to the price; lower a share", field="campaign.experiment.arms.share")

    def with_fields(self, fields: Mapping[str, Any]) -> Campaign:
        """Return the campaign with some of :data:`SETTABLE` replaced, as an installation or a command line sets them.

        Raises:
            InvalidInput: another field, or a value that the campaign cannot have.
        """
        unknown = sorted(set(fields) - set(SETTABLE))
        if unknown:
            raise InvalidInput(f"must be of {', '.join(SETTABLE)}, got {', '.join(unknown)}", field="campaign fields")
        # JSON of a pipeline knows one kind of number.
        whole = json.loads(json.dumps(dict(fields)), parse_float=_number)
        return Campaign.from_dict(self.to_dict() | whole)

    def in_doubt(self) -> Campaign:
        """Return the campaign while the watch alarms on the served model: it explores more."""
        return replace(self, exploration=max(self.exploration, self.alarm_exploration))

    def set_aside(self, late: int) -> int:
        """Minor units of the late reserve that are left after ``late`` minor units were captured late."""
        return max(0, self.late_reserve - late)

    @property
    def answer_shares(self) -> AnswerShares:
        """Shares of the requests to come that are chosen, drawn and held, by exploration and arms."""
        test = self.experiment
        held, drawn = (test.kind_share("holdout"), test.kind_share("explore")) if test else (0.0, 0.0)
        policy = 1.0 - held - drawn
        return AnswerShares(
            chosen=policy * (1.0 - self.exploration), drawn=drawn + policy * self.exploration, held=held
        )

    @property
    def ends_at(self) -> datetime:
        """First instant after the window."""
        return self.starts_at + timedelta(hours=self.hours)

    def slot(self, at: datetime) -> int:
        """Index of the hour that contains ``at``; negative before the window."""
        return int((at - self.starts_at) // timedelta(hours=1))

    def terms(self, side: Side) -> Terms:
        """The terms of one side, or a clear refusal."""
        if side not in self.sides:
            raise InvalidInput(
                f"campaign {self.name!r} has no side {side!r}; it has {sorted(self.sides)}", field="side"
            )
        return self.sides[side]

    @property
    def priced(self) -> tuple[str, ...]:
        """Names that have a price: the budget and the further ones, or every segment of a delivery."""
        found = tuple(segment.name for terms in self.sides.values() for segment in terms.segments)
        return found or (self.budget.name, *(each.name for each in self.group_budgets))

    @cached_property
    def group_budgets(self) -> tuple[GroupBudget, ...]:
        """Further budgets that have a price: all but those of one arm."""
        return tuple(each for each in self.limits.budgets if each.arm is None)

    def coverage(self, attributes: Mapping[Side, Attributes] | None = None) -> Coverage:
        """Return what tells which budgets count a request, and which levels rules allow it."""
        offers = {
            side: tuple(zip(names, self.sides[side].incentives, strict=True)) for side, names in self.offer_ids.items()
        }
        of_arms = (each for each in self.limits.budgets if each.arm is not None)
        return Coverage((*self.group_budgets, *of_arms), self.rules, offers, attributes or {}, self.limits.caps)

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
        self, side: Side, response: NDArray[np.floating[Any]], bits: NDArray[np.uint32] | None = None
    ) -> NDArray[np.float64]:
        """(K, J, N): amount that each level takes of each name in :attr:`priced`: money, or 1 for its segment.

        Args:
            side: of the requests.
            response: (J, N), their curves.
            bits: (N,), the further budgets that count each (:meth:`Coverage.bits`); None: by the side alone.
        """
        segments = self.terms(side).segments
        if not segments:
            net = self.net_cost(side, response)
            if not self.group_budgets:
                return net[None]
            if bits is None:
                bits = self.coverage().bits(side, [""] * net.shape[1])
            own = [
                np.where(bits >> np.uint32(place) & np.uint32(1), self.net_cost(side, response, each), 0.0)
                for place, each in enumerate(self.group_budgets)
            ]
            return np.stack([net, *own])
        return np.broadcast_to(np.eye(len(segments))[:, :, None], (len(segments), *np.shape(response)))

    def net_cost(
        self, side: Side, response: NDArray[np.floating[Any]], budget: Budget | GroupBudget | None = None
    ) -> NDArray[np.float64]:
        """(J, N): the cost that the price of a budget multiplies at decision time, ``g − B·m`` (S0 eq. 19–20).

        The allowance of a total or per-account budget is the same at every level, so it cancels.
        """
        terms, budget = self.terms(side), budget or self.budget
        cost = terms.cost(response)
        if budget.form == "per_response":
            cost -= budget.limit * terms.measure(response)
        return cost

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; :meth:`from_dict` is the inverse."""
        return {
            "name": self.name,
            "sides": {
                side: {"levels": list(t.levels), "cost_basis": t.cost_basis, "weight": t.weight}
                | ({"most_units": t.most_units} if t.most_units > 1 else {})
                | ({"most_response": t.most_response} if t.most_response != MOST_RESPONSE else {})
                | ({"segments": [asdict(segment) for segment in t.segments]} if t.segments else {})
                | ({"offers": list(t.offers)} if t.offers else {})
                for side, t in self.sides.items()
            },
            "budget": asdict(self.budget),
            "starts_at": self.starts_at.isoformat(),
            "hours": self.hours,
            **{name: getattr(self, name) for name in NUMBERS},
            "pacer": self.pacer,
            "labels": dict(self.labels),
            **({} if self.expected_requests is None else {"expected_requests": self.expected_requests}),
            **({"late_reserve": self.late_reserve} if self.late_reserve else {}),
            **({} if self.experiment is None else {"experiment": self.experiment.to_dict()}),
            **({"limits": self.limits.to_dict()} if self.limits else {}),
            **({"rules": [each.to_dict() for each in self.rules]} if self.rules else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Campaign:
        """Build a campaign from what :meth:`to_dict` gave, checking every field."""
        try:
            optional: dict[str, Any] = {name: _real(data[name], f"campaign.{name}") for name in NUMBERS if name in data}
            optional |= {name: data[name] for name in ("expected_requests", "late_reserve") if name in data}
            if data.get("experiment") is not None:
                optional["experiment"] = Experiment.from_dict(data["experiment"])
            if data.get("limits") is not None:
                optional["limits"] = Limits.from_dict(data["limits"])
            optional["rules"] = tuple(map(Rule.from_dict, data.get("rules", ())))
            return cls(
                name=data["name"],
                sides={
                    side: Terms(
                        levels=tuple(t["levels"]),
                        cost_basis=t["cost_basis"],
                        most_response=float(t.get("most_response", MOST_RESPONSE)),
                        segments=tuple(Segment(**each) for each in t.get("segments", [])),
                        offers=tuple(map(str, t.get("offers", []))),
                        **{name: t[name] for name in ("weight", "most_units") if name in t},
                    )
                    for side, t in data["sides"].items()
                },
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
