"""Sums that the limits of a campaign count: the name of one, and the most that it may reach."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, NamedTuple

LimitKind = Literal["budget", "cap"]

MOST_AMOUNT = 2**53
"""Largest amount that is exact wherever it is counted, Redis's scripts among them."""

BY_LEVEL = "\t"
"""Begin of the owners ``side|level`` of a sum of a second outcome: no identifier of an account has this character."""


class Asked(NamedTuple):
    """Parts of a request that decide which limits cover it; ``partner_id`` is empty where the request has none."""

    account_id: str
    side: str
    partner_id: str
    arm: str
    groups: Collection[str] = ()
    """Names of the budgets with a condition that count the request."""


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
