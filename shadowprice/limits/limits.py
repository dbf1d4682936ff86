"""Further limits of a campaign beside its main budget: budgets over groups and periods, and caps per account.

Several campaigns of one ledger may have a limit together: each of their files then describes it alike.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from shadowprice.errors import InvalidInput
from shadowprice.limits.conditions import Condition
from shadowprice.limits.periods import Calendar, Period

BudgetForm = Literal["total", "per_account", "per_response"]
Sense = Literal["at_most", "at_least"]
Per = Literal["account", "partner"]
LimitKind = Literal["budget", "cap"]

MOST_LIMITS = 16
"""Budgets and caps of one campaign: each is one sum that every authorization reads and writes."""

MOST_PARTNERS = 10_000
"""Partners in the group of one budget."""

MOST_CAMPAIGNS = 16
"""Campaigns that share one limit: each authorization reads the sum of every one of them."""

MOST_AMOUNT = 2**53
"""Largest amount that is exact wherever it is counted, Redis's scripts among them."""

OUTCOME = "outcome_"
"""Begin of the name of a second outcome beside features: in labeled rows and in the file of a model's heads."""

LIMIT_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}"


class Asked(NamedTuple):
    """Parts of a request that decide which limits cover it; ``partner_id`` is empty where the request has none."""

    account_id: str
    side: str
    partner_id: str
    arm: str
    groups: Collection[str] = ()
    """Names of the budgets with a condition that count the request."""


@dataclass(frozen=True, kw_only=True)
class GroupBudget:
    """A budget over a group of requests and a period, beside the campaign's main budget.

    name      of the budget: a label of metrics, and ``limited_by`` of the answers that it limits
    limit     minor units that the group's open authorizations and net spend may reach in one period; of a mean, minor
              units per request or per unit of response
    form      ``total``, or ``per_account`` or ``per_response``: a mean has a price, and no hard stop
    sense     ``at_most``, or ``at_least``: a floor has a price, and no hard stop; it is a total
    period    ``campaign``, or each ``month``, ``week``, ``day`` or ``hour`` by the time of the decision, in the time
              zone of the limits
    rolls_over  whether what a period leaves is there in the next one; only of a total with a hard stop
    side      only requests of this side; None: of both
    partners  only requests with one of these partner ids; empty: with any, or none
    arm       only requests of this arm of the experiment; None: of every arm
    where     only requests that this expression holds for, such as ``account.c_region == "north"``
              (:class:`~shadowprice.limits.conditions.Condition`); empty: all
    campaigns campaigns that have the limit together, this one among them; empty: this one alone
    outcome   column of the outcomes, such as ``x_complaints``, whose expected mean per request is limited in place of
              money: units per request, of the form ``per_account``; empty: money
    """

    name: str
    limit: float
    form: BudgetForm = "total"
    sense: Sense = "at_most"
    period: Period = "campaign"
    side: str | None = None
    partners: tuple[str, ...] = ()
    arm: str | None = None
    where: str = ""
    campaigns: tuple[str, ...] = ()
    rolls_over: bool = False
    outcome: str = ""

    def __post_init__(self) -> None:
        _check_name(self.name, "limits.budgets.name")
        object.__setattr__(self, "campaigns", _campaigns(self.campaigns, "limits.budgets.campaigns"))
        _check_choice(self.form, get_args(BudgetForm), "limits.budgets.form")
        _check_choice(self.sense, get_args(Sense), "limits.budgets.sense")
        if self.form == "total":
            _check_whole(self.limit, 0, "limits.budgets.limit", "minor units")
        else:
            self._check_mean()
        _check_choice(self.period, get_args(Period), "limits.budgets.period")
        rolls: Any = self.rolls_over
        if not isinstance(rolls, bool) or (
            rolls and (self.period == "campaign" or not self.enforced or self.campaigns)
        ):
            raise InvalidInput(
                "must be true or false, and true only of a total at_most, by month, week, day or hour, of one campaign",
                field="limits.budgets.rolls_over",
            )
        _check_text(self.side, "limits.budgets.side")
        _check_text(self.arm, "limits.budgets.arm")
        partners: Any = self.partners
        named = not isinstance(partners, str) and all(isinstance(name, str) and name for name in partners)
        if not named or len(partners) > MOST_PARTNERS:
            raise InvalidInput(
                f"must be a list of at most {MOST_PARTNERS} partner ids, none of them empty",
                field="limits.budgets.partners",
            )
        object.__setattr__(self, "partners", tuple(self.partners))
        if self.outcome != "":
            self._check_outcome()
        _ = self.condition

    def _check_mean(self) -> None:
        limit: Any = self.limit
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 <= limit <= MOST_AMOUNT:
            raise InvalidInput(f"must be an amount of minor units, got {limit!r}", field="limits.budgets.limit")
        if self.sense != "at_most" or self.period != "campaign" or self.arm is not None:
            raise InvalidInput(
                "a mean is an upper limit of the whole campaign and of every arm; leave sense, period and arm out",
                field="limits.budgets.form",
            )

    def _check_outcome(self) -> None:
        if not re.fullmatch(r"x_\w+", str(self.outcome)):
            raise InvalidInput(
                f"must be a column of numbers of the outcomes, x_…, got {self.outcome!r}",
                field="limits.budgets.outcome",
            )
        if self.form != "per_account" or self.campaigns:
            raise InvalidInput(
                "is limited as a mean per request of one campaign: set form to per_account, and leave campaigns out",
                field="limits.budgets.outcome",
            )

    @cached_property
    def condition(self) -> Condition | None:
        """The expression of ``where``, checked; None without one."""
        return Condition(self.where, f"limits.budgets.{self.name}.where") if self.where != "" else None

    @cached_property
    def group(self) -> frozenset[str]:
        """The partners."""
        return frozenset(self.partners)

    @property
    def whole_side(self) -> bool:
        """True for the total of all requests of one side for the whole campaign."""
        return self.side is not None and self.period == "campaign" and not (self.partners or self.where or self.arm)

    @property
    def enforced(self) -> bool:
        """True where the ledger stops at the limit."""
        return self.form == "total" and self.sense == "at_most"

    def key(self, asked: Asked) -> str | None:
        """Return the sum of this limit that a request adds to: the only one, or None where it is not covered.

        A ledger counts money, and no second outcome.
        """
        covered = (
            not self.outcome
            and self.side in (None, asked.side)
            and self.arm in (None, asked.arm)
            and (not self.partners or asked.partner_id in self.group)
            and (not self.where or self.name in asked.groups)
        )
        return "" if covered else None

    def expected_outcome(
        self, side: str, shape: tuple[int, ...], guards: Mapping[str, NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """(J, N), of the given shape: expected second outcome of requests of a side; 0 of one that is not counted.

        ``guards`` are those of the side's curves.

        Raises:
            InvalidInput: the side is counted, and its outcome is not known.
        """
        if self.side not in (None, side):
            return np.zeros(shape)
        if self.outcome not in guards:
            raise InvalidInput(
                f"of side {side!r} is not known, and limit {self.name!r} needs it: train on outcomes with this column, "
                "or give the limit the side that has it",
                field=self.outcome,
            )
        return np.broadcast_to(guards[self.outcome][:, None], shape)

    @property
    def bound(self) -> Bound:
        """Amount that one sum of this limit may reach; of one that rolls over in its first period."""
        return Bound(self.name, "budget", int(self.limit) if self.enforced else None, None, self.campaigns)


@dataclass(frozen=True, kw_only=True)
class Cap:
    """A limit of each account, or of each partner.

    name    of the cap: ``limited_by`` of the answers that it limits
    per     ``account`` or ``partner``: every one has the limit for itself
    count   paid incentives that may be open or captured in one period; None: any number
    amount  minor units that open authorizations and net spend may reach in one period; None: any amount
    period  ``campaign``, or each ``month``, ``week``, ``day`` or ``hour``, as of a budget
    side    only requests of this side; None: of both
    campaigns  campaigns that have the limit together, this one among them; empty: this one alone
    exclusive  an account or partner with an open or captured incentive of another of these campaigns gets none of
               this one in the period
    """

    name: str
    per: Per
    count: int | None = None
    amount: int | None = None
    period: Period = "campaign"
    side: str | None = None
    campaigns: tuple[str, ...] = ()
    exclusive: bool = False

    def __post_init__(self) -> None:
        _check_name(self.name, "limits.caps.name")
        object.__setattr__(self, "campaigns", _campaigns(self.campaigns, "limits.caps.campaigns"))
        _check_choice(self.per, get_args(Per), "limits.caps.per")
        _check_choice(self.period, get_args(Period), "limits.caps.period")
        _check_text(self.side, "limits.caps.side")
        if not isinstance(self.exclusive, bool) or (self.exclusive and not self.campaigns):
            raise InvalidInput("must be true or false, and true with campaigns only", field="limits.caps.exclusive")
        if self.count is None and self.amount is None and not self.exclusive:
            raise InvalidInput("give a count, an amount or both, or exclusive", field="limits.caps.count")
        if self.count is not None:
            _check_whole(self.count, 0, "limits.caps.count", "incentives")
        if self.amount is not None:
            _check_whole(self.amount, 0, "limits.caps.amount", "minor units")

    def key(self, asked: Asked) -> str | None:
        """Return the sum of this limit that a request adds to: its account's or partner's; None without one."""
        owner = asked.account_id if self.per == "account" else asked.partner_id
        return owner if owner and self.side in (None, asked.side) else None

    @property
    def bound(self) -> Bound:
        """Amount and count that one sum of this limit may reach."""
        return Bound(self.name, "cap", self.amount, self.count, self.campaigns, self.exclusive)


class Counted(Protocol):
    """A limit whose use is counted by periods."""

    @property
    def period(self) -> Period:
        """Period of one sum."""


class Bound(NamedTuple):
    """The most that one sum of a limit may reach; None where it is not limited.

    most_amount  minor units of open authorizations and net spend
    most_count   paid incentives that are open or captured
    campaigns    campaigns whose sums of this name count together; empty: one alone
    exclusive    nothing where the sum of another of these campaigns counts an incentive
    """

    name: str
    kind: LimitKind
    most_amount: int | None
    most_count: int | None
    campaigns: tuple[str, ...] = ()
    exclusive: bool = False

    def above(self, amount: int) -> Bound:
        """Return the bound with ``amount`` minor units more."""
        return self if self.most_amount is None else self._replace(most_amount=self.most_amount + amount)

    def beside(self, campaign: str) -> Bound:
        """Return the bound with the other campaigns alone."""
        return self._replace(campaigns=tuple(name for name in self.campaigns if name != campaign))


Limit = GroupBudget | Cap
KINDS: Mapping[str, type[Limit]] = {"budgets": GroupBudget, "caps": Cap}
"""Field of :class:`Limits` → class of what it lists. A new kind is a class with ``key`` and ``bound``, and both."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Further budgets and caps of a campaign; a request must fit all that cover it.

    time_zone  IANA name of the time zone in which periods begin

    Example:
        >>> limits = Limits(caps=(Cap(name="daily", per="account", count=1, period="day"),))
        >>> limits.sums(Asked("ada", "customer", "", "unassigned"), datetime(2024, 5, 1, tzinfo=UTC))
        ('daily|2024-05-01|ada',)
    """

    budgets: tuple[GroupBudget, ...] = ()
    caps: tuple[Cap, ...] = ()
    time_zone: str = "UTC"

    def __post_init__(self) -> None:
        _ = self.calendar
        if len(self.names) > MOST_LIMITS:
            raise InvalidInput(f"must be at most {MOST_LIMITS} budgets and caps", field="limits")
        if len(set(self.names)) < len(self.names):
            raise InvalidInput("names of budgets and caps must differ", field="limits")

    def __bool__(self) -> bool:
        """Return whether there is any limit."""
        return bool(self.every)

    @cached_property
    def calendar(self) -> Calendar:
        """Periods of the limits."""
        return Calendar(self.time_zone)

    @cached_property
    def every(self) -> tuple[Limit, ...]:
        """The limits in the order of :data:`KINDS`."""
        return tuple(limit for name in KINDS for limit in getattr(self, name))

    @property
    def names(self) -> list[str]:
        """Names of the limits."""
        return [limit.name for limit in self.every]

    @property
    def roll_over(self) -> bool:
        """Return whether a bound grows with time."""
        return any(budget.rolls_over for budget in self.budgets)

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """Bound of each limit in its first period, the budgets first; without an amount where the ledger does not stop.

        Those of a time are :meth:`Campaign.bounds`.
        """
        return tuple(limit.bound for limit in self.every)

    def granted_before(self, budget: GroupBudget, first: datetime, at: datetime) -> int:
        """Minor units of the periods before the one of ``at`` that a budget keeps, the first that of ``first``.

        0 of a budget that does not roll over.
        """
        if not budget.rolls_over:
            return 0
        number = self.calendar.number
        return min(int(budget.limit) * (number(budget.period, at) - number(budget.period, first)), MOST_AMOUNT // 2)

    @property
    def shared(self) -> list[Limit]:
        """Limits that several campaigns have together."""
        return [limit for limit in self.every if limit.campaigns]

    def only(self, chosen: Collection[Limit]) -> Limits:
        """Return some of the limits."""
        kept: dict[str, Any] = {
            name: tuple(limit for limit in getattr(self, name) if limit in chosen) for name in KINDS
        }
        return Limits(**kept, time_zone=self.time_zone)

    @property
    def counted_by_owner(self) -> list[GroupBudget | Cap]:
        """Limits of which a solve reads the use by owner: caps, and totals with a price that campaigns share."""
        totals = (budget for budget in self.budgets if budget.form == "total" and budget.arm is None)
        return [*(total for total in totals if total.campaigns), *self.caps]

    def partner_limit(self, side: str) -> str | None:
        """Return the first limit that stops requests of a side by their partner; None without one.

        A request without a partner would escape it.
        """
        caps = [cap.name for cap in self.caps if cap.per == "partner" and cap.side in (None, side)]
        budgets = [
            budget for budget in self.budgets if budget.partners and budget.enforced and budget.side in (None, side)
        ]
        return next(iter([*caps, *(budget.name for budget in budgets)]), None)

    def check_within(self, campaign: str, budget: str, sides: Collection[str], arms: Collection[str]) -> None:
        """Make sure that the limits fit a campaign with this main budget, these sides that are paid, and these arms.

        Raises:
            InvalidInput: a name that the main budget has, a side or arm that the campaign does not have, or a limit
                that only other campaigns share.
        """
        for limit in self.shared:
            if campaign not in limit.campaigns:
                raise InvalidInput(
                    f"of limit {limit.name!r} must name this campaign too, {campaign!r}", field="limits.campaigns"
                )
        if budget in self.names:
            raise InvalidInput(f"{budget!r} is the main budget; choose another name", field="limits")
        if self and not sides:
            raise InvalidInput("a delivery pays nothing; leave its limits out", field="limits")
        for field, used, known in (
            ("limits.side", {limit.side for limit in self.every}, sides),
            ("limits.budgets.arm", {own_budget.arm for own_budget in self.budgets}, arms),
        ):
            unknown = sorted(map(str, used - {None, *known}))
            if unknown:
                raise InvalidInput(f"must be one of {sorted(known)}, got {unknown}", field=field)

    def sums(self, asked: Asked, at: datetime) -> tuple[str, ...]:
        """Return the sums that a request decided ``at`` adds to: ``name|period|key``. O(limits)."""
        if not self:
            return ()
        names = []
        for limit in self.every:
            key = limit.key(asked)
            if key is not None:
                names.append(f"{limit.name}|{self.period_of(limit, at)}|{key}")
        return tuple(names)

    def period_of(self, limit: Counted, at: datetime) -> str:
        """Name of the period whose sum a limit counts at a time.

        A budget that rolls over is counted since the beginning, against a bound that grows.
        """
        rolls = isinstance(limit, GroupBudget) and limit.rolls_over
        return self.calendar.name("campaign" if rolls else limit.period, at)

    def current(self, at: datetime) -> dict[str, str]:
        """Return the sum of each budget's period that contains ``at``, by the budget's name."""
        return {budget.name: f"{budget.name}|{self.period_of(budget, at)}|" for budget in self.budgets}

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; fields with their defaults are left out."""
        zone = {} if self.time_zone == "UTC" else {"time_zone": self.time_zone}
        return {name: [_given(limit) for limit in getattr(self, name)] for name in KINDS} | zone

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Limits:
        """Build limits from what :meth:`to_dict` gave.

        Raises:
            InvalidInput: an unknown, missing or wrong field; names it.
        """
        _check_fields(data, {*KINDS, "time_zone"}, "limits")
        built: dict[str, Any] = {
            name: tuple(_built(kind, fields_of, f"limits.{name}") for fields_of in data.get(name, ()))
            for name, kind in KINDS.items()
        }
        return cls(**built, time_zone=data.get("time_zone", "UTC"))


def check_alike(campaigns: Mapping[str, Limits]) -> None:
    """Check that campaigns describe the limits that they share in the same way.

    Raises:
        InvalidInput: a campaign lacks a limit that another one shares with it, or describes it otherwise.
    """
    for campaign, limits in campaigns.items():
        for limit in limits.shared:
            for other in set(limit.campaigns) & set(campaigns):
                there = campaigns[other]
                zones = limit.period == "campaign" or there.time_zone == limits.time_zone
                if limit not in there.shared or not zones:
                    raise InvalidInput(
                        f"of {campaign!r} is shared with {other!r}, whose file must describe it in the same way",
                        field=f"limits.{limit.name}",
                    )


def name_of(found: str) -> str:
    """Return the name of the limit that a sum belongs to.

    >>> name_of("daily|2024-05-01|ada")
    'daily'
    """
    return found.split("|", 1)[0]


def owner_of(found: str) -> str:
    """Return the account or partner that a sum belongs to; empty for that of a budget.

    >>> owner_of("daily|2024-05-01|ada|b")
    'ada|b'
    """
    return found.split("|", 2)[2]


def renamed(found: str, names: Mapping[str, str]) -> str:
    """Return the name of a sum with another name of its owner, where ``names`` has one."""
    owner = owner_of(found)
    return found.removesuffix(owner) + names[owner] if owner in names else found


def _given(item: Limit) -> dict[str, Any]:
    defaults = {field.name: field.default for field in fields(item)}
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(item).items()}
    return {name: value for name, value in values.items() if getattr(item, name) != defaults[name]}


def _built(kind: type[Limit], data: Any, field: str) -> Limit:
    _check_fields(data, {entry.name for entry in fields(kind)}, field)
    try:
        return kind(**data)
    except TypeError as error:
        raise InvalidInput(f"lacks a field: {error}", field=field) from error


def _check_fields(data: Any, known: set[str], field: str) -> None:
    if not isinstance(data, Mapping):
        raise InvalidInput(f"must be an object with fields of {sorted(known)}", field=field)
    unknown = sorted(set(data) - known)
    if unknown:
        raise InvalidInput(f"has no field {unknown[0]!r}; it takes {sorted(known)}", field=field)


def _check_name(name: object, field: str) -> None:
    if not isinstance(name, str) or not re.fullmatch(LIMIT_NAME, name):
        raise InvalidInput(
            f"must be at most 63 ASCII letters, digits, '-' or '_', the first a letter or digit, got {name!r}",
            field=field,
        )


def _check_whole(given: object, least: int, field: str, noun: str) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= MOST_AMOUNT:
        raise InvalidInput(
            f"must be a whole number of {noun} from {least} to {MOST_AMOUNT}, got {given!r}", field=field
        )


def _check_choice(given: object, choices: tuple[str, ...], field: str) -> None:
    if given not in choices:
        raise InvalidInput(f"must be one of {choices}, got {given!r}", field=field)


def _campaigns(given: Any, field: str) -> tuple[str, ...]:
    named = not isinstance(given, str) and all(isinstance(name, str) and name for name in given)
    if not named or len(set(given)) != len(given) or len(given) == 1 or len(given) > MOST_CAMPAIGNS:
        raise InvalidInput(f"must be a list of 2 to {MOST_CAMPAIGNS} different campaigns, or left out", field=field)
    return tuple(given)


def _check_text(given: object, field: str) -> None:
    if given is not None and (not isinstance(given, str) or not given):
        raise InvalidInput(f"must be a name, or left out, got {given!r}", field=field)
