"""Sums of authorizations, spending and answers, kept in the ledger database, so a restart changes nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from serving.ledger.sound import check_sums
from shadowprice.campaign import Campaign, Side
from shadowprice.pacing.budgets.in_hand import remaining_budget
from shadowprice.pacing.spend import SpendReport


@dataclass(frozen=True, kw_only=True)
class LedgerTotals:
    """Sums over a campaign since its first request; money in minor units, each by side.

    decisions    (side, level, reason) → requests decided
    authorized   amount authorized, at face value
    outstanding  held for open authorizations: the most that these can cost
    spent        paid
    responses    redemptions of customers, share ratios of merchants
    outcomes     requests settled
    released     (side, cause) → amount held for authorizations that expired or were given back
    late         paid on authorizations that had been released before
    refunded     part of ``spent`` that corrections took away again; ``withdrawn`` likewise of ``responses``
    overridden   part of ``spent`` that corrections with override booked, whatever the limit
    corrections  (side, kind) → corrections recorded
    misdated     outcomes whose date cannot be right
    given        minor units that moves took off the limit; ``received``: those that they added

    Raises:
        Unavailable: a sum is negative.
    """

    decisions: Mapping[tuple[Side, int, str], int]
    authorized: Mapping[Side, int]
    outstanding: Mapping[Side, int]
    spent: Mapping[Side, int]
    responses: Mapping[Side, float]
    outcomes: Mapping[Side, int]
    released: Mapping[tuple[Side, str], int] = field(default_factory=dict)
    late: Mapping[Side, int] = field(default_factory=dict)
    misdated: Mapping[Side, int] = field(default_factory=dict)
    refunded: Mapping[Side, int] = field(default_factory=dict)
    withdrawn: Mapping[Side, float] = field(default_factory=dict)
    overridden: Mapping[Side, int] = field(default_factory=dict)
    corrections: Mapping[tuple[Side, str], int] = field(default_factory=dict)
    given: int = 0
    received: int = 0

    def __post_init__(self) -> None:
        sums = {"authorized": self.authorized, "outstanding": self.outstanding, "spent": self.spent, "late": self.late}
        check_sums({**sums, "outcomes": self.outcomes})
        kept = {side: paid - self.refunded.get(side, 0) for side, paid in self.spent.items()}
        check_sums({"spent less refunded": kept})

    @property
    def net_spent(self) -> int:
        """Minor units paid and not taken back, of all sides."""
        return sum(self.spent.values()) - sum(self.refunded.values())

    @property
    def moved(self) -> int:
        """Minor units by which moves have changed the limit."""
        return self.received - self.given

    @property
    def requests(self) -> dict[Side, int]:
        """side → requests decided."""
        counts: dict[Side, int] = dict.fromkeys(self.authorized, 0)
        for (side, _, _), count in self.decisions.items():
            counts[side] = counts.get(side, 0) + count
        return counts

    @property
    def corrected(self) -> dict[Side, int]:
        """side → corrections recorded."""
        counts: dict[Side, int] = dict.fromkeys(self.authorized, 0)
        for (side, _), count in self.corrections.items():
            counts[side] += count
        return counts

    def money_left(self, campaign: Campaign, now: datetime) -> float:
        """Earned part of the budget that is not spent; negative when overspent."""
        responses = {side: value - self.withdrawn.get(side, 0.0) for side, value in self.responses.items()}
        report = SpendReport(
            spent=self.net_spent, responses=responses, requests=self.requests, moved=self.moved, observed_at=now
        )
        return remaining_budget(campaign, report)
