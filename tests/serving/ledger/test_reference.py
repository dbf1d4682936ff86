"""Random operations on a ledger against a reference in plain Python: dictionaries, and one step after the other."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
import redis

from serving.ledger.clock import microseconds
from serving.ledger.records import Known
from serving.ledger.redis.layout import keys
from serving.ledger.redis.store import RedisStore
from serving.ledger.traffic import HOUR, QUARTER
from shadowprice.errors import Conflict, Unavailable
from shadowprice.limits import Cap, GroupBudget, Limits

OPERATIONS = 6_000
"""Of each kind of store."""
ROUND = 600
"""Operations on one campaign."""
TTL_HOURS = 2
ACCOUNTS = ("ada", "ben", "cleo")
PARTNERS = ("", "bakery", "kiosk")
PERIODS = {"campaign": "", "day": "%Y-%m-%d", "hour": "%Y-%m-%d %H"}
ADA = 'account.c_name == "ada"'
SOURCE = "shop"


class Refused(Exception):
    """The reference refuses the whole call."""


@dataclass
class Reference:
    """The state of a ledger, and what each operation does to it.

    opened    request id → money held and the ledger time of its expiry
    closed    request id → ``expired`` or ``returned``
    standing  request id → response and cost, after the last correction
    pending   microseconds that passed since the store was last called
    server_days  days that the clock of Redis was moved meanwhile
    """

    levels: dict[str, tuple[int, ...]]
    limit: int | None
    late_reserve: int
    keeps_pending: bool
    now: int = 0
    pending: int = 0
    server_days: int = 0
    limits: Limits = field(default_factory=Limits)
    partners: dict[str, tuple[str, dict[str, str]]] = field(default_factory=dict)
    members: defaultdict[tuple, list[str]] = field(default_factory=lambda: defaultdict(list))
    lates: dict[str, bool] = field(default_factory=dict)
    decisions: dict[str, tuple[str, str, int, int, str, str]] = field(default_factory=dict)
    opened: dict[str, tuple[int, int]] = field(default_factory=dict)
    closed: dict[str, str] = field(default_factory=dict)
    reported: dict[str, tuple[float, int]] = field(default_factory=dict)
    standing: dict[str, tuple[float, int]] = field(default_factory=dict)
    events: dict[str, str] = field(default_factory=dict)
    corrected: list[str] = field(default_factory=list)
    sums: Counter[str] = field(default_factory=Counter)

    def copy(self) -> Reference:
        kept = {name: value.copy() if hasattr(value, "copy") else value for name, value in vars(self).items()}
        return Reference(**kept)

    def committed(self) -> int:
        held = sum(held for held, _ in self.opened.values())
        return held + self.sums["spent"] - self.sums["refunded"]

    def key(self, limit, name: str) -> tuple | None:
        """The limit, the account, partner or group, and the period that a decision counts for; None for none."""
        account, side = self.decisions[name][:2]
        partner, at = self.partners[name]
        if limit.side not in (None, side):
            return None
        if isinstance(limit, GroupBudget):
            if limit.where and account != "ada":
                return None
            return None if limit.partners and partner not in limit.partners else (limit.name, "all", at[limit.period])
        owner = account if limit.per == "account" else partner
        return (limit.name, owner, at[limit.period]) if owner else None

    def used(self, key) -> tuple[int, int]:
        """Amount and count of a limit, by adding up every authorization that there ever was."""
        amount = count = 0
        for name in self.members[key]:
            if name in self.opened:
                amount, count = amount + self.opened[name][0], count + 1
            elif name in self.standing:
                cost = self.standing[name][1]
                amount, count = amount + cost, count + (cost > 0 or not self.lates[name])
        return amount, count

    def full(self, name: str, amount: int, count: int) -> bool:
        """Whether a limit has no room for more amount and count of a decision."""
        for limit in self.limits.every:
            key = self.key(limit, name)
            if key is None or not self.decisions[name][3]:
                continue
            used, uses = self.used(key)
            if (limit.bound.most_amount is not None and used + amount > limit.bound.most_amount) or (
                limit.bound.most_count is not None and count and uses + count > limit.bound.most_count
            ):
                return True
        return False

    def room(self, name: str, left: int) -> tuple[int, str, str]:
        """What the tightest limit leaves, the answer's reason, and the limit; the first where two leave the same."""
        found = (left, "budget_exhausted", "budget")
        for limit in self.limits.every:
            key = self.key(limit, name)
            if key is None:
                continue
            used, uses = self.used(key)
            bound = limit.bound
            rest = [] if bound.most_amount is None else [bound.most_amount - used]
            rest += [0] if bound.most_count is not None and uses >= bound.most_count else []
            if rest and min(rest) < found[0]:
                found = (min(rest), "capped" if isinstance(limit, Cap) else "budget_exhausted", limit.name)
        return found

    def tick(self) -> None:
        if self.pending:
            # Ahead counts for nothing; back, what passed until the next look is not counted.
            self.now += 0 if self.server_days < 0 else self.pending
            self.pending = self.server_days = 0

    def restart(self) -> None:
        if self.keeps_pending:
            self.tick()
        self.pending = 0

    def expire(self) -> int:
        due = [name for name, (_, until) in self.opened.items() if until <= self.now]
        for name in due:
            self.close(name, "expired")
        return len(due)

    def close(self, name: str, cause: str) -> None:
        held, _ = self.opened.pop(name)
        self.closed[name] = cause
        self.sums[cause] += held

    def authorise(self, calls):
        self.expire()
        left = None
        if self.limit is not None:
            left = self.limit - self.committed() - max(0, self.late_reserve - self.sums["late"])
        answers = []
        for call in calls:
            if self.in_conflict(call):
                answers.append(None)
                continue
            answer = []
            for name, account, side, level, partner, at in call:
                before = self.decisions.get(name)
                if before is None and level is not None:
                    incentive, reason, limit = self.levels[side][level], "tie", ""
                    self.decisions[name] = (account, side, level, incentive, reason, limit)
                    self.partners[name] = (partner, at)
                    if left is not None:
                        rest, why, tightest = self.room(name, left)
                        if incentive > max(rest, 0):
                            level, incentive = (0 if self.levels[side][0] == 0 else -1), 0
                            reason, limit = why, tightest
                    self.decisions[name] = (account, side, level, incentive, reason, limit)
                    if incentive:
                        for each in self.limits.every:
                            self.members[self.key(each, name)].append(name)
                        self.opened[name] = (incentive, self.now + TTL_HOURS * 3_600_000_000)
                    if left is not None:
                        left -= incentive
                answer.append((self.decisions.get(name), before is not None))
            answers.append(answer)
        return answers

    def in_conflict(self, call) -> bool:
        owner = {name: decision[:2] for name, decision in self.decisions.items()}
        for name, account, side, level, _, _ in call:
            if owner.get(name, (account, side)) != (account, side):
                return True
            if level is not None:
                owner[name] = (account, side)
        return False

    def settle(self, events) -> tuple[int, int]:
        return self.booked(self.capture(event) for event in events)

    def correct(self, events) -> tuple[int, int]:
        return self.booked(self.change(each.event, each.kind, each.override) for each in events)

    @staticmethod
    def booked(new) -> tuple[int, int]:
        found = list(new)
        return sum(found), len(found) - sum(found)

    def is_repeat(self, event) -> bool:
        known = self.events.get(event.event_id)
        if known not in (None, event.content):
            raise Refused
        return known is not None

    def capture(self, event) -> bool:
        name, values = event.request_id, (event.response, event.cost)
        if self.is_repeat(event):
            return False
        if name in self.reported:
            if values not in (self.reported[name], self.standing[name]):
                raise Refused
            return False
        if name in self.opened and self.opened[name][1] <= self.now:
            self.close(name, "expired")
        cause = self.closed.get(name)
        no_room = self.limit is not None and event.cost > self.limit - self.committed()
        full = self.limit is not None and self.full(name, event.cost, 1)
        if cause and event.cost and (cause == "returned" or no_room or full):
            raise Refused
        self.opened.pop(name, None)
        self.lates[name] = cause is not None
        self.events[event.event_id] = event.content
        self.reported[name] = self.standing[name] = values
        self.sums["spent"] += event.cost
        self.sums["late"] += event.cost if cause else 0
        return True

    def change(self, event, kind: str, override: bool) -> bool:
        name = event.request_id
        if self.is_repeat(event):
            return False
        if name not in self.standing:
            if not override:
                raise Refused
            if name in self.opened and self.opened[name][1] <= self.now:
                self.close(name, "expired")
            self.opened.pop(name, None)
            self.lates[name] = name in self.closed
            self.reported[name] = self.standing[name] = (0.0, 0)
        response, cost = self.standing[name]
        dearer = event.cost - cost
        if kind != "reversal" and (event.response > response or dearer > 0):
            raise Refused
        if dearer > 0 and not override and self.closed.get(name) == "returned":
            raise Refused
        if dearer > 0 and self.limit is not None and not override and dearer > self.limit - self.committed():
            raise Refused
        counted = int(self.lates[name] and cost == 0)
        if dearer > 0 and self.limit is not None and not override and self.full(name, dearer, counted):
            raise Refused
        self.events[event.event_id] = event.content
        self.standing[name] = (event.response, event.cost)
        self.corrected.append(event.event_id)
        self.sums["spent"] += max(dearer, 0)
        self.sums["refunded"] += max(-dearer, 0)
        self.sums["overridden"] += max(dearer, 0) if override else 0
        self.sums[kind] += 1
        return True

    def release(self, names) -> tuple[int, int]:
        if any(name in self.reported for name in names):
            raise Refused
        given = [name for name in names if name in self.opened]
        for name in given:
            self.close(name, "returned")
        return len(given), len(names) - len(given)


class Player:
    """Draws operations, does each in the ledger and in the reference, and compares."""

    def __init__(self, open_ledger, kit, dice: random.Random, hard_stop: bool, is_redis: bool) -> None:
        self.open_ledger, self.kit, self.dice, self.hard_stop = open_ledger, kit, dice, hard_stop
        reserve = dice.choice([0, 0, 300])
        self.ledger = open_ledger(
            limit=dice.choice([400, 2_000, 20_000]),
            late_reserve=reserve,
            authorisation_ttl_hours=TTL_HOURS,
            limits=random_limits(dice),
        )
        limit = int(self.ledger.campaign.budget.limit) if hard_stop else None
        self.reference = Reference(
            kit.levels, limit, reserve, keeps_pending=not is_redis, limits=self.ledger.campaign.limits
        )
        self.names: list[str] = []
        self.serial = 0
        self.kinds: Counter[str] = Counter()
        self.earlier: tuple[int, dict[str, bytes]] | None = None

    def step(self) -> None:
        """One operation."""
        kinds = {
            self.authorise: 30, self.settle: 25, self.correct: 12, self.release: 8, self.sweep: 5, self.pass_time: 12,
            self.set_wall_clock: 3, self.move_server_clock: 3, self.restart: 2, self.fail_over: 3,
        }  # fmt: skip
        (operation,) = self.dice.choices(list(kinds), list(kinds.values()))
        self.kinds[operation.__name__] += 1
        operation()
        found = self.reference
        if found.limit is not None:
            assert found.committed() <= found.limit + found.sums["overridden"]

    def both(self, call, expected):
        """Do one call in both; all of it or nothing is done, and the answers are the same."""
        tried = self.reference.copy()
        tried.tick()
        try:
            wanted = expected(tried)
        except Refused:
            # Nothing is recorded; only time has passed.
            self.reference.tick()
            with pytest.raises(Conflict):
                call()
            return
        assert call() == wanted
        self.reference = tried

    def authorise(self) -> None:
        calls = [[self.row() for _ in range(self.dice.randint(1, 3))] for _ in range(self.dice.randint(1, 4))]
        sent = [[self.sent(*row) for row in call] for call in calls]

        def call():
            answers = self.ledger.authorise_calls(*sent, hard_stop=self.hard_stop)
            return [None if isinstance(answer, Conflict) else [plain(row) for row in answer] for answer in answers]

        self.both(call, lambda reference: reference.authorise(calls))
        self.names = list(self.reference.decisions)

    def row(self):
        side = self.dice.choice(["customer", "merchant"])
        account = self.dice.choice(ACCOUNTS)
        if self.names and self.dice.random() < 0.3:
            name = self.name()
            if self.dice.random() < 0.8:
                account, side = self.reference.decisions[name][:2]
        else:
            # The same new id may come twice in a message, also of two accounts.
            self.serial += self.dice.random() < 0.95
            name = f"request-{self.serial}"
        periods = {period: self.ledger.at.strftime(form) for period, form in PERIODS.items()}
        level = None if self.dice.random() < 0.1 else self.dice.randrange(len(self.kit.levels[side]))
        return name, account, side, level, self.dice.choice(PARTNERS), periods

    def sent(self, name, account, side, level, partner, _):
        if level is None:
            return Known(name, account, side)
        groups = [each.name for each in self.reference.limits.budgets if each.where and account == "ada"]
        return self.kit.item(name, side, level, account, partner_id=partner, groups=",".join(groups))

    def name(self) -> str:
        # Mostly a late one: an early one is closed already.
        last = self.names[-40:]
        return self.dice.choice(last if self.dice.random() < 0.8 else self.names)

    def outcome(self):
        name = self.name()
        _, side, _, incentive, _, _ = self.reference.decisions[name]
        cost = self.dice.choice([0, incentive, incentive // 2])
        came = {"redeemed": bool(cost)} if side == "customer" else {"response": self.dice.choice([0.0, 0.5, 3.0])}
        self.serial += self.dice.random() < 0.9
        return self.kit.event(name, cost, event_id=f"event-{self.serial}", source=SOURCE, at=self.ledger.at, **came)

    def settle(self) -> None:
        if self.names:
            events = [self.outcome() for _ in range(self.dice.choice([1, 1, 1, 2, 3]))]
            self.both(
                lambda: self.ledger.settle(*events, hard_stop=self.hard_stop),
                lambda reference: reference.settle(events),
            )

    def correct(self) -> None:
        if not self.names:
            return
        events = []
        for _ in range(self.dice.choice([1, 1, 2])):
            event = self.outcome()
            kind = self.dice.choice(["reversal", "reversal", "refund", "clawback"])
            changes = {"response": event.response} if event.redeemed is None else {"redeemed": event.redeemed}
            events.append(
                self.kit.correction(
                    event.request_id, event.cost, kind, event_id=event.event_id, source=SOURCE, at=self.ledger.at,
                    override=self.dice.random() < 0.1, **changes,
                )
            )  # fmt: skip
        self.both(
            lambda: self.ledger.correct(*events, hard_stop=self.hard_stop), lambda reference: reference.correct(events)
        )

    def release(self) -> None:
        if self.names:
            names = list(dict.fromkeys(self.name() for _ in range(self.dice.randint(1, 2))))
            self.both(lambda: self.ledger.release(*names), lambda reference: reference.release(names))

    def sweep(self) -> None:
        self.both(self.ledger.sweep, lambda reference: reference.expire())

    def pass_time(self) -> None:
        passed = timedelta(minutes=self.dice.choice([1, 20, 50, 150]))
        self.ledger.at += passed
        self.reference.pending += passed // timedelta(microseconds=1)

    def set_wall_clock(self) -> None:
        self.ledger.wrong = timedelta(hours=self.dice.choice([-96, -1, 0, 1, 96]))

    def move_server_clock(self) -> None:
        days = self.dice.choice([4, -4])
        self.ledger.jump(days * 86_400_000_000)
        self.reference.server_days += 0 if self.reference.keeps_pending else days

    def restart(self) -> None:
        before = self.ledger
        before.close()
        self.ledger = self.open_ledger(before.campaign)
        self.ledger._right, self.ledger.wrong = before._right, before.wrong
        self.reference.restart()

    def fail_over(self) -> None:
        """Let an earlier copy of Redis answer, as a promoted replica that lags would; the ledger grants nothing."""
        if not isinstance(self.ledger.store, RedisStore):
            self.restart()
            return
        with redis.Redis(**self.ledger.store._client.get_connection_kwargs()) as client:
            newest = copy_of(client, self.ledger.campaign)
            count = len(self.reference.decisions)
            if self.earlier is not None and self.earlier[0] < count:
                put_back(client, self.ledger.campaign, self.earlier[1])
                for _ in range(2):
                    with pytest.raises(Unavailable, match="went back"):
                        self.ledger.authorise(self.kit.item("again"))
                    with pytest.raises(Unavailable, match="went back"):
                        self.ledger.release(self.names[-1])
                put_back(client, self.ledger.campaign, newest)
                self.restart()
        self.earlier = count, newest

    def compare(self) -> None:
        """Everything that can be read, against the reference."""
        found, totals = self.reference, self.ledger.store.totals()
        assert sum(totals.outstanding.values()) == sum(held for held, _ in found.opened.values())
        for name in ("spent", "refunded", "late", "overridden"):
            assert sum(getattr(totals, name).values()) == found.sums[name], name
        assert sum(totals.outcomes.values()) == len(found.reported)
        for cause in ("expired", "returned"):
            assert sum(value for (_, of), value in totals.released.items() if of == cause) == found.sums[cause]
        for kind in ("reversal", "refund", "clawback"):
            assert sum(value for (_, of), value in totals.corrections.items() if of == kind) == found.sums[kind]
        tally = Counter((side, level, reason) for _, side, level, _, reason, _ in found.decisions.values())
        assert {key: count for key, count in totals.decisions.items() if count} == tally
        store = self.ledger.store
        self.compare_limits()
        assert {name: plain_decision(kept) for name, kept in store.find(list(found.decisions)).items()} == (
            found.decisions
        )
        decisions = store.decisions_after(0, 10**6)
        assert [row.request_id for row in decisions] == list(found.decisions)
        since = min((row.decided_at // QUARTER * QUARTER for row in decisions), default=0)
        hours = Counter(((row.decided_at - since) // HOUR, row.side) for row in decisions)
        traffic = store.traffic(since, 3)
        assert {
            ((microseconds(each.hour) - since) // HOUR, each.side): each.requests for each in traffic.hours
        } == hours
        assert [each.request_id for each in traffic.sample] == list(found.decisions)[:-4:-1]
        assert {row.request_id: (row.response, row.cost) for row in store.outcomes_after(0, 10**6)} == found.reported
        rows = store.corrections_after(0, 10**6)
        assert [row.event_id for row in rows] == found.corrected
        assert found.reported | {row.request_id: (row.response, row.cost) for row in rows} == found.standing

    def compare_limits(self) -> None:
        """Every sum of every limit, against the authorizations that it is made of."""
        found, names = self.reference, {}
        for limit, owner, period in filter(None, found.members):
            names[f"{limit}|{period.replace(' ', 'T')}|{'' if owner == 'all' else owner}"] = (limit, owner, period)
        usage = self.ledger.store.usage(list(names))
        assert {name: tuple(usage.get(name, (0, 0))) for name in names} == {
            name: found.used(key) for name, key in names.items()
        }


def random_limits(dice: random.Random) -> Limits:
    """Up to six budgets and three caps that overlap; some budgets are of ada alone, and some are floors."""
    sides = [None, "customer", "merchant"]
    return Limits(
        budgets=tuple(
            GroupBudget(
                name=f"budget-{place}",
                limit=dice.choice([0, 300, 3_000]),
                period=dice.choice(["campaign", "day", "hour"]),
                side=dice.choice(sides),
                partners=dice.choice([(), ("bakery",), ("bakery", "kiosk")]),
                where=dice.choice(["", "", ADA]),
                sense=dice.choice(["at_most"] * 5 + ["at_least"]),
            )
            for place in range(dice.randint(0, 6))
        ),
        caps=tuple(
            Cap(
                name=f"cap-{place}",
                per=dice.choice(["account", "partner"]),
                count=dice.choice([None, 1, 10, 100]),
                amount=dice.choice([130, 1_000, 5_000]),
                period=dice.choice(["campaign", "day"]),
                side=dice.choice(sides),
            )
            for place in range(dice.randint(0, 3))
        ),
    )


def copy_of(client, campaign) -> dict[str, bytes]:
    found = {key: client.dump(key) for key in keys(campaign.name)}
    return {key: value for key, value in found.items() if value is not None}


def put_back(client, campaign, copy) -> None:
    client.delete(*keys(campaign.name))
    for key, value in copy.items():
        client.restore(key, 0, value)


def plain(recorded):
    return (None, False) if recorded is None else (plain_decision(recorded.decision), recorded.repeat)


def plain_decision(kept):
    return kept.account_id, kept.side, kept.level, kept.incentive, kept.reason, kept.limited_by


def test_any_operations_do_what_a_reference_in_plain_python_does(open_ledger, kit, request) -> None:
    is_redis = "redis" in request.node.name
    kinds: Counter[str] = Counter()
    for number in range(OPERATIONS // ROUND):
        player = Player(open_ledger, kit, random.Random(number), hard_stop=number % 5 != 4, is_redis=is_redis)
        for step in range(ROUND):
            player.step()
            if step % 50 == 0:
                player.compare()
        player.compare()
        player.ledger.close()
        kinds += player.kinds
    assert sum(kinds.values()) == OPERATIONS
    assert min(kinds.values()) > OPERATIONS / 100
