"""A ledger in plain Python, one step after the other: the simulation compares every answer with it."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from serving.http.limits import MAX_SWEEP
from serving.ledger.clock import time_of
from serving.ledger.moves import Allowance, Move, Step
from serving.ledger.records import Correction, Entry, Known, ReportedOutcome, Row, asked
from shadowprice.campaign import Campaign, Side
from shadowprice.limits import Cap, GroupBudget, Period

ADA = 'account.c_name == "ada"'
"""The one condition of a simulated budget: it counts the requests of one account."""
LONGEST = 1000
"""Characters of each part of an error."""
PERIODS: dict[Period, str] = {
    "campaign": "",
    "month": "%Y-%m",
    "week": "%G-W%V",
    "day": "%Y-%m-%d",
    "hour": "%Y-%m-%dT%H",
}
EARLY = timedelta(minutes=5)
"""Time before its decision that a correction may be dated."""
Given = tuple[int, int, str, str]
"""Level, incentive, reason and the limit of a decision."""


class Violation(AssertionError):
    """The ledger did what the reference does not."""


class Refused(Exception):
    """The reference refuses the whole call."""


def check(found: object, wanted: object, what: str) -> None:
    """Raise :class:`Violation` where two differ."""
    if found != wanted:
        raise Violation(f"{what[:LONGEST]}: the ledger has {found!r:.{LONGEST}}, the reference {wanted!r:.{LONGEST}}")


@dataclass
class Request:
    """State of one request; ``held`` is the most that it can cost, ``sums`` those of the limits that count it.

    decided_at is the date of its decision.
    """

    account: str
    side: Side
    given: Given
    held: int
    sums: tuple[str, ...]
    decided_at: datetime
    state: str = "free"
    until: int = 0
    late: bool = False
    reported: tuple[float, int] | None = None
    standing: tuple[float, int] | None = None

    @property
    def use(self) -> tuple[int, int]:
        """Amount and count that it adds to the sums of its limits now."""
        if self.state == "open":
            return self.held, 1
        if self.standing is None:
            return 0, 0
        return self.standing[1], int(self.standing[1] > 0 or not self.late)


@dataclass
class Reference:
    """State of a ledger, changed by each operation at a ``date``. ``own`` is None without the hard stop."""

    campaign: Campaign
    own: int | None
    requests: dict[str, Request] = field(default_factory=dict)
    events: dict[str, str] = field(default_factory=dict)
    corrected: list[str] = field(default_factory=list)
    moves: dict[str, tuple[Move, str, str]] = field(default_factory=dict)
    gave_at: int | None = None
    sums: Counter[str] = field(default_factory=Counter)
    usage: defaultdict[str, tuple[int, int]] = field(default_factory=lambda: defaultdict(lambda: (0, 0)))
    _due: list[tuple[int, str]] = field(default_factory=list)
    _periods: dict[tuple[str, str], int] = field(default_factory=dict)
    date: datetime = datetime.min

    def authorize(self, calls: Sequence[Sequence[Row]], now: int) -> list[Any]:
        """Return per call None where it is refused, or per row None or its decision and whether it was known."""
        self.expire(now)
        left = None
        if self.limit is not None:
            reserve = self.campaign.late_reserve
            left = self.limit - self.committed - max(0, reserve - self.sums["late"])
        answers: list[Any] = []
        for call in calls:
            if self._in_conflict(call):
                answers.append(None)
                continue
            answer: list[tuple[Given, bool] | None] = []
            for row in call:
                request_id = asked(row).request_id
                before = self.requests.get(request_id)
                if before is None and isinstance(row, Entry):
                    left = self._decide(row, left, now)
                found = self.requests.get(request_id)
                answer.append(None if found is None else (found.given, before is not None))
            answers.append(answer)
        return answers

    def settle(self, outcomes: Sequence[ReportedOutcome], now: int) -> tuple[int, int]:
        """Return how many were new and how many were repeats."""
        return self._all_or_none(outcomes, lambda place: self._capture(outcomes[place], now))

    def correct(self, corrections: Sequence[Correction], now: int) -> tuple[int, int]:
        made = [correction.outcome for correction in corrections]
        return self._all_or_none(made, lambda place: self._change(corrections[place], now))

    def release(self, names: Sequence[str]) -> tuple[int, int]:
        """Return how many were returned and how many were not open any more."""
        if any(self.requests[name].reported for name in names):
            raise Refused
        given = [name for name in names if self.requests[name].state == "open"]
        for name in given:
            self._close(name, "returned")
        return len(given), len(names) - len(given)

    def expire(self, now: int) -> int:
        """Return how many expired, of one sweep."""
        count = 0
        while self._due and self._due[0][0] <= now and count < MAX_SWEEP:
            _, name = heapq.heappop(self._due)
            if self.requests[name].state == "open":
                self._close(name, "expired")
                count += 1
        return count

    def move(self, step: Step, move: Move, bounds: Allowance, end: str | None, at: int) -> str:
        """Return the state of the ledger's half of a move after a step."""
        half = "take" if step == "take" else "give"
        known = self.moves.get(move.id)
        if known is not None and known[:2] != (move, half):
            raise Refused
        if step == "finish":
            if known is None or known[2] not in ("sent", end):
                raise Refused
            assert end is not None
            if known[2] == "sent" and end == "returned":
                self.sums["received"] += move.amount
            self.moves[move.id] = (move, half, end)
            return end
        if known is not None:
            return known[2]
        assert self.limit is not None
        if step == "take":
            state = "taken" if self.limit + move.amount <= bounds.cap else "refused"
            self.sums["received"] += move.amount if state == "taken" else 0
        else:
            state, free = "sent", self.limit - self.committed - max(0, bounds.reserve - self.sums["late"])
            soon = self.gave_at is not None and at - self.gave_at < bounds.every and not move.undoes
            if soon or move.amount > min(free, self.limit - bounds.floor):
                raise Refused
            self.gave_at = max(at, self.gave_at or 0)
            self.sums["given"] += move.amount
        self.moves[move.id] = (move, half, state)
        return state

    @property
    def limit(self) -> int | None:
        return None if self.own is None else self.own + self.sums["received"] - self.sums["given"]

    @property
    def committed(self) -> int:
        """Minor units open or spent."""
        return self.sums["open"] + self.sums["spent"] - self.sums["refunded"]

    def check_bounds(self) -> None:
        """Raise :class:`Violation` where more is open or spent than was allowed."""
        if self.limit is not None and self.committed > self.limit + self.sums["overridden"]:
            raise Violation(f"{self.committed} are open or spent of {self.limit}")

    def _all_or_none(self, outcomes: Sequence[ReportedOutcome], step: Callable[[int], bool]) -> tuple[int, int]:
        """Take the steps of a call, or leave everything as it was."""
        before = {outcome.request_id: replace(self.requests[outcome.request_id]) for outcome in outcomes}
        usage = {name: self.usage[name] for request in before.values() for name in request.sums}
        sums, corrected = self.sums.copy(), len(self.corrected)
        events = [outcome.event_id for outcome in outcomes if outcome.event_id not in self.events]
        try:
            new = sum(step(place) for place in range(len(outcomes)))
        except Refused:
            self.requests |= before
            self.usage |= usage
            self.sums = sums
            del self.corrected[corrected:]
            for name in events:
                self.events.pop(name, None)
            raise
        return new, len(outcomes) - new

    def _decide(self, row: Entry, left: int | None, now: int) -> int | None:
        wanted = row.wanted
        level, incentive, reason, name = wanted.level, wanted.incentive, "tie", ""
        units = self.campaign.terms(wanted.side).most_units
        counted = self._sums(wanted.account_id, wanted.side, wanted.partner_id)
        if left is not None:
            rest, why, tightest = self._room(counted, left)
            if incentive * units > max(rest, 0):
                levels = self.campaign.terms(wanted.side).levels
                level, incentive, reason, name = (0 if levels[0] == 0 else -1), 0, why, tightest
            left -= incentive * units
        given = (level, incentive, reason, name)
        made = Request(
            wanted.account_id, wanted.side, given, incentive * units, counted if incentive else (), self.date
        )
        self.requests[wanted.request_id] = made
        if incentive:
            made.until = now + row.ttl
            heapq.heappush(self._due, (made.until, wanted.request_id))
            self.sums["open"] += made.held
            self._move(made, state="open")
        return left

    def _in_conflict(self, call: Sequence[Row]) -> bool:
        own: dict[str, tuple[str, str]] = {}
        for row in call:
            request: Known = asked(row)
            mine = (request.account_id, request.side)
            before = self.requests.get(request.request_id)
            kept = (before.account, before.side) if before is not None else own.get(request.request_id, mine)
            if kept != mine:
                return True
            if isinstance(row, Entry):
                own[request.request_id] = mine
        return False

    def _sums(self, account: str, side: str, partner: str) -> tuple[str, ...]:
        found, limits = [], self.campaign.limits
        every: list[GroupBudget | Cap] = [*limits.budgets, *limits.caps]
        for each in every:
            owner = _owner(each, account, side, partner)
            if owner is not None:
                rolls = isinstance(each, GroupBudget) and each.rolls_over
                found.append(f"{each.name}|{'' if rolls else self._period(each, self.date)}|{owner}")
        return tuple(found)

    def _period(self, limit: GroupBudget | Cap, at: datetime) -> str:
        zone = self.campaign.limits.time_zone
        local = at.astimezone(ZoneInfo(zone))
        return local.strftime(PERIODS[limit.period] + ("%z" if limit.period == "hour" and zone != "UTC" else ""))

    def _most(self, limit: GroupBudget | Cap) -> int | None:
        """Return the amount that a sum may reach now: of a budget that rolls over once for every period so far."""
        most = limit.bound.most_amount
        if most is None or not isinstance(limit, GroupBudget) or not limit.rolls_over:
            return most
        last = min(self.date, self.campaign.ends_at - timedelta(microseconds=1))
        known = (limit.name, self._period(limit, last))
        if known not in self._periods:
            at, periods = self.campaign.starts_at, {self._period(limit, self.campaign.starts_at)}
            while at < last:
                at = min(at + timedelta(minutes=15), last)
                periods.add(self._period(limit, at))
            self._periods[known] = len(periods)
        return most * self._periods[known]

    def _room(self, sums: Sequence[str], left: int) -> tuple[int, str, str]:
        """Return what the tightest limit leaves, the answer's reason, and the limit; the first of equals."""
        found = (left, "budget_exhausted", "budget")
        limits = {each.name: each for each in self.campaign.limits.every}
        for name in sums:
            amount, uses = self.usage[name]
            limit = limits[name.split("|")[0]]
            bound, most = limit.bound, self._most(limit)
            rest = [] if most is None else [most - amount]
            rest += [0] if bound.most_count is not None and uses >= bound.most_count else []
            if rest and min(rest) < found[0] and (min(rest) < 0 or found[0] > 0):
                reason = "capped" if isinstance(limit, Cap) else "budget_exhausted"
                found = (min(rest), reason, limit.name)
        return found

    def _full(self, request: Request, amount: int, count: int) -> bool:
        limits = {each.name: each for each in self.campaign.limits.every}
        for name in request.sums:
            used, uses = self.usage[name]
            bound, most = limits[name.split("|")[0]].bound, self._most(limits[name.split("|")[0]])
            if (most is not None and used + amount > most) or (
                bound.most_count is not None and count and uses + count > bound.most_count
            ):
                return True
        return False

    def _is_repeat(self, outcome: ReportedOutcome) -> bool:
        known = self.events.get(outcome.event_id)
        if known not in (None, outcome.content):
            raise Refused
        return known is not None

    def _capture(self, outcome: ReportedOutcome, now: int) -> bool:
        request, values = self.requests[outcome.request_id], (outcome.response, outcome.cost)
        if self._is_repeat(outcome):
            return False
        if request.reported is not None:
            if values not in (request.reported, request.standing):
                raise Refused
            return False
        self._expire_one(outcome.request_id, now)
        closed = request.state in ("expired", "returned")
        if closed and outcome.cost:
            no_room = self.limit is not None and outcome.cost > self.limit - self.committed
            if request.state == "returned" or no_room:
                raise Refused
            if self.limit is not None and self._full(request, outcome.cost, 1):
                raise Refused
        self.events[outcome.event_id] = outcome.content
        self._report(request, values, closed)
        self.sums["spent"] += outcome.cost
        self.sums["late"] += outcome.cost if closed else 0
        return True

    def _change(self, correction: Correction, now: int) -> bool:
        outcome = correction.outcome
        request = self.requests[outcome.request_id]
        if self._is_repeat(outcome):
            return False
        if time_of(outcome.observed_at) < request.decided_at - EARLY and not correction.override:
            raise Violation(f"a correction of {outcome.request_id} is dated {time_of(outcome.observed_at)}")
        if request.standing is None:
            if not correction.override:
                raise Refused
            self._expire_one(outcome.request_id, now)
            self._report(request, (0.0, 0), request.state in ("expired", "returned"))
        assert request.standing is not None
        response, cost = request.standing
        dearer = outcome.cost - cost
        if correction.kind != "reversal" and (outcome.response > response or dearer > 0):
            raise Refused
        if dearer > 0 and not correction.override:
            if request.state == "returned":
                raise Refused
            if self.limit is not None and dearer > self.limit - self.committed:
                raise Refused
            if self.limit is not None and self._full(request, dearer, int(request.late and cost == 0)):
                raise Refused
        self.events[outcome.event_id] = outcome.content
        self._move(request, standing=(outcome.response, outcome.cost))
        self.corrected.append(outcome.event_id)
        self.sums["spent"] += max(dearer, 0)
        self.sums["refunded"] += max(-dearer, 0)
        self.sums["overridden"] += max(dearer, 0) if correction.override else 0
        self.sums[correction.kind] += 1
        return True

    def _report(self, request: Request, values: tuple[float, int], late: bool) -> None:
        if request.state == "open":
            self.sums["open"] -= request.held
        state = request.state if late else "captured"
        self._move(request, state=state, late=late, reported=values, standing=values)

    def _expire_one(self, name: str, now: int) -> None:
        request = self.requests[name]
        if request.state == "open" and request.until <= now:
            self._close(name, "expired")

    def _close(self, name: str, cause: str) -> None:
        held = self.requests[name].held
        self.sums["open"] -= held
        self.sums[cause] += held
        self._move(self.requests[name], state=cause)

    def _move(self, request: Request, **changes: Any) -> None:
        """Change a request, and the sums of its limits with it."""
        amount, count = request.use
        for name, value in changes.items():
            setattr(request, name, value)
        more, uses = request.use
        for name in request.sums:
            used = self.usage[name]
            self.usage[name] = (used[0] + more - amount, used[1] + uses - count)


def _owner(limit: GroupBudget | Cap, account: str, side: str, partner: str) -> str | None:
    """Return the part of a sum's name that tells whose it is; None where the limit does not cover the request."""
    if limit.side not in (None, side):
        return None
    if isinstance(limit, Cap):
        return (account if limit.per == "account" else partner) or None
    if (limit.partners and partner not in limit.partners) or (limit.where and account != "ada"):
        return None
    return ""
