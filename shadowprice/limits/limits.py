"""Further limits of a campaign beside its main budget: budgets over groups and periods, and caps per account.

Several campaigns of one ledger may have a limit together: each of their files then describes it alike.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from functools import cached_property
from typing import Any, Protocol

from shadowprice.errors import InvalidInput
from shadowprice.limits.cap import Cap
from shadowprice.limits.fields import check_fields
from shadowprice.limits.group_budget import GroupBudget
from shadowprice.limits.periods import Calendar, Period
from shadowprice.limits.sums import BY_LEVEL, MOST_AMOUNT, Asked, Bound

MOST_LIMITS = 16
"""Budgets and caps of one campaign: each is one sum that every authorization reads and writes."""


class Counted(Protocol):
    """A limit whose use is counted by periods."""

    @property
    def name(self) -> str:
        """First part of the names of its sums."""

    @property
    def period(self) -> Period:
        """Period of one sum."""


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
        """Limits of which a solve reads the use by owner: caps, totals that campaigns share, sums of second outcomes.

        The owners of such a sum are ``side|level``.
        """
        totals = (budget for budget in self.budgets if budget.form == "total" and budget.arm is None)
        return [*(total for total in totals if total.campaigns or total.by_level), *self.caps]

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

    def sums_by_level(self, asked: Asked, at: datetime) -> tuple[str, ...]:
        """Return the sums of second outcomes that count a request decided ``at``, each without the level at its end.

        The level that is given, or −1 for nothing, completes a name: :meth:`begin_of`, then ``side|level``. O(limits).
        """
        return tuple(
            f"{self.begin_of(budget, at)}{asked.side}|"
            for budget in self.budgets
            if budget.by_level and budget.covers(asked)
        )

    def begin_of(self, limit: Counted, at: datetime) -> str:
        """Return what the names of a limit's sums begin with, before their owners, in the period that contains ``at``.

        The owners ``side|level`` of a sum of a second outcome are kept apart from accounts by :data:`BY_LEVEL`.
        """
        by_level = isinstance(limit, GroupBudget) and limit.by_level
        return f"{limit.name}|{self.period_of(limit, at)}|{BY_LEVEL if by_level else ''}"

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
        check_fields(data, {*KINDS, "time_zone"}, "limits")
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


def _given(item: Limit) -> dict[str, Any]:
    defaults = {field.name: field.default for field in fields(item)}
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(item).items()}
    return {name: value for name, value in values.items() if getattr(item, name) != defaults[name]}


def _built(kind: type[Limit], data: Any, field: str) -> Limit:
    check_fields(data, {entry.name for entry in fields(kind)}, field)
    try:
        return kind(**data)
    except TypeError as error:
        raise InvalidInput(f"lacks a field: {error}", field=field) from error
