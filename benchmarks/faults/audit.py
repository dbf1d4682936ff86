"""Compare the ledger with the answers that callers received and with the decision log."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from benchmarks.faults.load import Witness
from serving.ledger.clock import time_of
from serving.ledger.log import LogWriter
from serving.ledger.store import Store
from shadowprice.campaign import Campaign
from shadowprice.limits import Asked, Bound, name_of
from shadowprice.limits.usage import Usage
from shadowprice.pacing.decision_log.records import Decision
from shadowprice.pacing.decision_log.served import read_log

PAGE = 10_000
Row = TypeVar("Row")


@dataclass(frozen=True)
class Audit:
    """Counts that must all be 0, and how much there was to go wrong."""

    decisions: int
    captures: int
    spent: int
    limited: int
    overspent: int
    limits_exceeded: int
    levels_miscounted: int
    decisions_lost: int
    answers_contradicted: int
    captures_lost: int
    captures_twice: int
    sums_wrong: int
    log_differs: int
    refusals: int

    @property
    def clean(self) -> bool:
        """Return whether nothing was lost, doubled or contradicted."""
        names = ("decisions", "captures", "spent", "limited")
        return not any(value for name, value in vars(self).items() if name not in names)


def audit(store: Store, campaign: Campaign, witness: Witness, highest: int, log_dir: Path) -> Audit:
    """Compare. ``highest`` is the largest observed sum of held and spent amounts."""
    decisions = _all(store.decisions_after)
    outcomes = _all(store.outcomes_after)
    kept = {row.request_id: (row.level, row.incentive) for row in decisions}
    booked = {row.request_id: row.cost for row in outcomes}
    totals = store.totals()
    spent, outstanding = sum(totals.spent.values()), sum(totals.outstanding.values())
    reserved = {row.request_id: row.reserved for row in decisions}
    open_holds = sum(amount for name, amount in reserved.items() if name not in booked)
    released = sum(totals.released.values()) - sum(reserved[row.request_id] for row in outcomes if row.late)
    LogWriter(store, log_dir).write()
    log = read_log(log_dir)
    told_in_log = zip(log.decisions["level"], log.decisions["incentive"], strict=True)
    logged = dict(zip(log.decisions["request_id"], told_in_log, strict=True))
    paid = dict(zip(log.outcomes["request_id"], log.outcomes["cost"], strict=True))
    return Audit(
        decisions=len(decisions),
        captures=len(outcomes),
        spent=spent,
        limited=sum(row.limited_by not in ("", campaign.budget.name) for row in decisions),
        overspent=max(0, max(highest, spent + outstanding) - int(campaign.budget.limit)),
        limits_exceeded=_exceeded(store, campaign, decisions, booked),
        levels_miscounted=_miscounted(store, campaign, decisions),
        decisions_lost=sum(kept.get(name) != told for name, told in witness.answers.items()),
        answers_contradicted=len(witness.contradicted),
        captures_lost=sum(booked.get(name) != cost for name, cost in witness.captured.items()),
        captures_twice=sum(count - 1 for count in Counter(row.request_id for row in outcomes).values()),
        sums_wrong=(spent != sum(booked.values()))
        + (sum(totals.authorized.values()) != sum(amount for _, amount in kept.values()))
        + (outstanding != open_holds - released)
        + (len(kept) != len(decisions)),
        log_differs=sum(logged.get(name) != told for name, told in kept.items())
        + sum(paid.get(name) != cost for name, cost in booked.items())
        + abs(len(logged) - len(kept))
        + abs(len(paid) - len(booked)),
        refusals=sum(witness.refused.values()),
    )


def _exceeded(store: Store, campaign: Campaign, decisions: Sequence[Decision], booked: Mapping[str, int]) -> int:
    """Number of sums of budgets and caps that are above their limit, or below what was captured."""
    captured: Counter[str] = Counter()
    uses: Counter[str] = Counter()
    sums: set[str] = set()
    for row in decisions:
        for each in campaign.limits.sums(_asked(row), time_of(row.decided_at)) if row.reserved else ():
            sums.add(each)
            captured[each] += booked.get(row.request_id, 0)
            uses[each] += row.request_id in booked
    bounds = {bound.name: bound for bound in campaign.bounds(time_of(decisions[-1].decided_at))} if decisions else {}
    kept = store.usage(sorted(sums))
    return sum(_is_wrong(bounds[name_of(each)], kept.get(each, Usage()), captured[each], uses[each]) for each in sums)


def _miscounted(store: Store, campaign: Campaign, decisions: Sequence[Decision]) -> int:
    """Number of decisions that the sums of second outcomes lack by level, or have too many."""
    made: Counter[str] = Counter()
    begins: set[str] = set()
    for row in decisions:
        at = time_of(row.decided_at)
        begins |= {campaign.limits.begin_of(budget, at) for budget in campaign.limits.budgets if budget.by_level}
        made.update(f"{each}{row.level}" for each in campaign.limits.sums_by_level(_asked(row), at))
    kept = {begin + owner: usage for begin in begins for owner, usage in _owners(store, campaign.name, begin).items()}
    wrong = (abs(kept.get(name, Usage()).uses - made[name]) for name in {*made, *kept})
    return sum(wrong) + sum(usage.amount != 0 for usage in kept.values())


def _owners(store: Store, campaign: str, begin: str) -> dict[str, Usage]:
    page = store.owners(campaign, begin, "", PAGE)
    found = dict(page.usage)
    while page.next:
        page = store.owners(campaign, begin, page.next, PAGE)
        found |= page.usage
    return found


def _asked(row: Decision) -> Asked:
    return Asked(row.account_id, row.side, row.partner_id, row.arm, frozenset(row.groups.split(",")))


def _is_wrong(bound: Bound, kept: Usage, captured: int, uses: int) -> bool:
    above = (bound.most_amount is not None and kept.amount > bound.most_amount) or (
        bound.most_count is not None and kept.uses > bound.most_count
    )
    return above or kept.amount < captured or kept.uses < uses


def _all(after: Callable[[int, int], list[Row]]) -> list[Row]:
    rows: list[Row] = []
    while page := after(len(rows), PAGE):
        rows += page
    return rows
