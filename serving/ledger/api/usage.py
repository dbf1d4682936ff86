"""Use of the further budgets in their current periods, for people and for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from shadowprice.campaign import Campaign
from shadowprice.limits import Period
from shadowprice.limits.usage import Usage

ReadUsage = Callable[[Sequence[str]], Mapping[str, Usage]]


@dataclass(frozen=True)
class LimitUse:
    """A further budget now.

    limit  minor units of one period
    used   minor units of open authorizations and net spend, of decisions of the current period
    """

    budget: str
    period: Period
    limit: int
    used: int


def limits_now(campaign: Campaign, usage: ReadUsage, now: datetime) -> list[LimitUse]:
    """Return the use of every further budget in the period that contains ``now``; caps have too many sums."""
    sums = campaign.limits.current(now)
    if not sums:
        return []
    found = usage(list(sums.values()))
    return [
        LimitUse(each.name, each.period, int(each.limit), found.get(sums[each.name], Usage()).amount)
        for each in campaign.limits.budgets
        if each.form == "total"
    ]
