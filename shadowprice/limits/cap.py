"""Limit of each account, or of each partner."""

from dataclasses import dataclass
from typing import Literal, get_args

from shadowprice.errors import InvalidInput
from shadowprice.limits.fields import check_campaigns, check_choice, check_name, check_text, check_whole
from shadowprice.limits.periods import Period
from shadowprice.limits.sums import Asked, Bound

Per = Literal["account", "partner"]


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
        check_name(self.name, "limits.caps.name")
        object.__setattr__(self, "campaigns", check_campaigns(self.campaigns, "limits.caps.campaigns"))
        check_choice(self.per, get_args(Per), "limits.caps.per")
        check_choice(self.period, get_args(Period), "limits.caps.period")
        check_text(self.side, "limits.caps.side")
        if not isinstance(self.exclusive, bool) or (self.exclusive and not self.campaigns):
            raise InvalidInput("must be true or false, and true with campaigns only", field="limits.caps.exclusive")
        if self.count is None and self.amount is None and not self.exclusive:
            raise InvalidInput("give a count, an amount or both, or exclusive", field="limits.caps.count")
        if self.count is not None:
            check_whole(self.count, 0, "limits.caps.count", "incentives")
        if self.amount is not None:
            check_whole(self.amount, 0, "limits.caps.amount", "minor units")

    def key(self, asked: Asked) -> str | None:
        """Return the sum of this limit that a request adds to: its account's or partner's; None without one."""
        owner = asked.account_id if self.per == "account" else asked.partner_id
        return owner if owner and self.side in (None, asked.side) else None

    @property
    def bound(self) -> Bound:
        """Amount and count that one sum of this limit may reach."""
        return Bound(self.name, "cap", self.amount, self.count, self.campaigns, self.exclusive)
