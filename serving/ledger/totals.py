"""How much was promised, spent and answered: read from the database, so a restart changes nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from shadowprice.campaign import Campaign, Side
from shadowprice.pacing.resolve import money_left
from shadowprice.pacing.spend import SpendReport


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Sums over a campaign since its first request; money in minor units, each by side.

    decisions    (side, level, reason) → requests decided
    authorised   promised, at face value
    outstanding  promised and not settled yet
    spent        paid
    responses    redemptions of customers, share ratios of merchants
    outcomes     requests settled
    """

    decisions: Mapping[tuple[Side, int, str], int]
    authorised: Mapping[Side, int]
    outstanding: Mapping[Side, int]
    spent: Mapping[Side, int]
    responses: Mapping[Side, float]
    outcomes: Mapping[Side, int]

    @property
    def requests(self) -> dict[Side, int]:
        """side → requests decided."""
        counts: dict[Side, int] = dict.fromkeys(self.authorised, 0)
        for (side, _, _), count in self.decisions.items():
            counts[side] += count
        return counts

    def money_left(self, campaign: Campaign, now: datetime) -> float:
        """What the budget has earned and not spent; negative when overspent."""
        report = SpendReport(
            spent=sum(self.spent.values()), responses=self.responses, requests=self.requests, observed_at=now
        )
        return money_left(campaign, report)


def read_totals(database: sqlite3.Connection, campaign: Campaign) -> Totals:
    """Totals of every side of the campaign, zero where nothing happened yet."""
    tally = database.execute("SELECT side, level, reason, decisions, authorised FROM tally").fetchall()
    settled = {
        row[0]: row[1:] for row in database.execute("SELECT side, outcomes, released, spent, responses FROM settlement")
    }
    authorised: dict[Side, int] = dict.fromkeys(campaign.sides, 0)
    for side, _, _, _, amount in tally:
        authorised[side] += amount
    column = {
        name: {side: settled.get(side, (0, 0, 0, 0.0))[index] for side in campaign.sides}
        for index, name in enumerate(("outcomes", "released", "spent", "responses"))
    }
    return Totals(
        decisions={(side, level, reason): count for side, level, reason, count, _ in tally},
        authorised=authorised,
        outstanding={side: authorised[side] - column["released"][side] for side in campaign.sides},
        spent=column["spent"],
        responses=column["responses"],
        outcomes=column["outcomes"],
    )
