"""Use of the further budgets in their current periods, for people and for Prometheus."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from serving.ledger.api.queries import Wanted
from serving.ledger.clock import time_of
from serving.ledger.records import Owners
from shadowprice.campaign import Campaign, place_limits, sum_of
from shadowprice.errors import InvalidRequest
from shadowprice.limits import Period
from shadowprice.limits.usage import Usage

ReadOwners = Callable[[str, str, str, int], Owners]
ReadUsage = Callable[[Sequence[str]], Mapping[str, Usage]]


@dataclass(frozen=True)
class LimitUse:
    """A further budget now.

    limit  minor units of one period
    used   minor units of open authorizations and net spend, of decisions of the current period; of a limit that rolls
           over less what the periods before it left
    """

    budget: str
    period: Period
    limit: int
    used: int


@dataclass(frozen=True)
class OwnersNow:
    """Use of one limit by its accounts or partners in the current period, as columns; those without use left out.

    of       campaign whose use it is
    first    when it first decided; null before
    owners   names; that of a budget is empty, and that of a sum of a second outcome is ``side|level``
    amounts  minor units of open authorizations and net spend
    uses     incentives that are open or captured; of a sum of a second outcome, requests
    next     parameter ``after`` of the next call; empty where there are no more
    """

    campaign: str
    name: str
    of: str
    period: str
    first: datetime | None
    owners: Sequence[str]
    amounts: Sequence[int]
    uses: Sequence[int]
    next: str


def owners_now(campaign: Campaign, read: ReadOwners, wanted: Wanted, now: datetime) -> OwnersNow:
    """Return the use of a limit in the period that contains ``now``.

    Raises:
        InvalidRequest: there is no such limit, or the campaign ``of`` does not share it.
    """
    known = {limit.name: limit for limit in (*campaign.limits.every, *place_limits(campaign))}
    limit = known.get(wanted.name)
    if limit is None:
        raise InvalidRequest(f"must be one of {list(known)}, got {wanted.name!r}", field="name")
    of = wanted.of or campaign.name
    campaigns = limit.campaigns or (campaign.name,)
    if of not in campaigns:
        raise InvalidRequest(f"must be one of {list(campaigns)}, got {of!r}", field="of")
    period = campaign.limits.period_of(limit, now)
    page = read(of, campaign.limits.begin_of(limit, now), wanted.after, wanted.limit)
    rows = page.usage.values()
    return OwnersNow(
        campaign=campaign.name,
        name=limit.name,
        of=of,
        period=period,
        first=None if page.first is None else time_of(page.first),
        owners=list(page.usage),
        amounts=[row.amount for row in rows],
        uses=[row.uses for row in rows],
        next=page.next,
    )


def places_now(campaign: Campaign, usage: ReadUsage) -> dict[str, int]:
    """Return the accounts that each segment of a delivery has; empty of another campaign."""
    sums = {segment.name: sum_of(segment) for segment in campaign.segments if not segment.gives_nothing}
    usages = usage(list(sums.values())) if sums else {}
    return {name: usages.get(key, Usage()).uses for name, key in sums.items()}


def limits_now(campaign: Campaign, usage: ReadUsage, now: datetime) -> list[LimitUse]:
    """Return the use of every further total of money in the period of ``now``; caps have too many sums."""
    sums = campaign.limits.current(now)
    if not sums:
        return []
    usages = usage(list(sums.values()))
    return [
        LimitUse(
            budget.name,
            budget.period,
            int(budget.limit),
            usages.get(sums[budget.name], Usage()).amount - campaign.granted_before(budget, now),
        )
        for budget in campaign.limits.budgets
        if budget.form == "total" and not budget.outcome
    ]
