"""A campaign over a window of hours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign.budget import Budget
from shadowprice.campaign.campaign_fields import CampaignFields
from shadowprice.campaign.campaign_validity import check_campaign
from shadowprice.campaign.fields import number, real
from shadowprice.campaign.options import NUMBERS, read_options, written_options
from shadowprice.campaign.segments import Segment
from shadowprice.campaign.terms import Terms
from shadowprice.campaign.terms_fields import Side
from shadowprice.currency import Currency
from shadowprice.errors import InvalidInput
from shadowprice.limits import Bound, GroupBudget
from shadowprice.limits.attributes import Attributes
from shadowprice.limits.coverage import Coverage, SideRequests

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


@dataclass(frozen=True, kw_only=True)
class Campaign(CampaignFields):
    """A campaign: its fields, checked, with its charges, limits and JSON."""

    def __post_init__(self) -> None:
        check_campaign(self)
        object.__setattr__(self, "starts_at", self.starts_at.astimezone(UTC))
        object.__setattr__(self, "rules", tuple(self.rules))

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Segments of a delivery; empty of another campaign."""
        return tuple(segment for terms in self.sides.values() for segment in terms.segments)

    @property
    def earned(self) -> str:
        """Name of the objective on a page; a predicted one is never shown as measured."""
        return f"predicted long-term {self.objective}" if self.long_term else self.objective

    @property
    def told_in(self) -> float:
        """Factor from values to those that a person reads: money is read in major units, responses as they are."""
        return 1.0 / Currency.of(self.currency).unit if self.in_money else 1.0

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
            **written_options(self),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Campaign:
        """Build a campaign from what :meth:`to_dict` gave, checking every field."""
        try:
            options = {name: real(data[name], f"campaign.{name}") for name in NUMBERS if name in data}
            return cls(
                name=data["name"],
                sides={side: Terms.from_dict(terms) for side, terms in data["sides"].items()},
                budget=Budget(**data["budget"]),
                starts_at=datetime.fromisoformat(data["starts_at"]),
                hours=data["hours"],
                pacer=str(data.get("pacer", "closing")),
                labels=dict(data.get("labels", {})),
                **options | read_options(data),
            )
        except KeyError as missing:
            raise InvalidInput("is missing", field=f"campaign.{missing.args[0]}") from None
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InvalidInput(f"is not a campaign: {error}", field="campaign") from error
