"""A world of virtual time, seeded faults and true clocks around the ledgers of one campaign."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from benchmarks.faults.redis_server import RedisServer
from benchmarks.simulation.loop import VirtualLoop
from benchmarks.simulation.process import Process
from benchmarks.simulation.reference import ADA, PERIODS, Reference, Refused, Violation, check
from benchmarks.simulation.stores import Operation, Server
from serving.ledger.clock import microseconds, time_of
from serving.ledger.records import Counted
from shadowprice.campaign import Budget, Campaign, PortfolioTerms, Terms
from shadowprice.errors import Conflict
from shadowprice.limits import Cap, GroupBudget, Limits

START = microseconds(datetime(2024, 5, 1, 9, tzinfo=UTC))
LEVELS = {"customer": (0, 50, 130), "merchant": (20, 60)}
MERCHANTS = (
    Terms(levels=LEVELS["merchant"], cost_basis="on_grant"),
    Terms(levels=LEVELS["merchant"], cost_basis="on_response", most_units=3),
)
TTL_HOURS = 2
TOLERANCE = 300_000_000
"""Microseconds that clocks may differ where replicas agree on a date."""
CATCH_UP = 900_000_000
"""Microseconds of ledger time that a clock of Redis which jumps back and forth may withhold and give later."""
LOST_SECONDS = 10_000.0
RATES = {
    "lost": 0.004,
    "late": 0.01,
    "sent twice": 0.01,
    "killed while it writes": 0.003,
    "lost before Redis": 0.004,
    "cut before Redis": 0.004,
    "answer of Redis lost": 0.004,
    "killed meanwhile": 0.2,
}
"""Chance of each fault that may happen at any message or statement."""
STORM = 20
"""Factor of these chances in a storm."""


class World:
    """Ledgers of one campaign, everything that they are told, and what each of their steps must do."""

    def __init__(self, seed: str, folder: Path, server: RedisServer | None) -> None:
        self.dice = random.Random(seed)
        self.loop = VirtualLoop()
        self.loop.set_exception_handler(lambda _, context: self._fail(context.get("exception"), context))
        self.folder = folder
        self.url = "" if server is None else server.url
        self.trace = sha256()
        self.lines: list[str] | None = None
        self.logged: list[bytes] = []
        self.counts: Counter[str] = Counter()
        self.operations = 0
        self.storm = 1
        self.calm = True
        self.wrong = [0, 0]
        self.server_wrong = 0
        self.promoted = self.full = False
        self.hard_stop = self.dice.random() < 0.85
        self.campaign = make_campaign(self.dice)
        limit = int(self.campaign.budget.limit) if self.hard_stop else None
        self.reference = Reference(self.campaign, limit)
        self.failure: BaseException | None = None
        self._over = self.loop.create_future()
        self._lags: tuple[int, int] | None = None
        self._date = 0
        self._going: dict[asyncio.Task[Any], None] = {}
        self.server = None if server is None else Server(server.url, self.campaign, self)
        self.processes = [Process(self, machine) for machine in range(1 if server is None else 2)]

    @property
    def microseconds(self) -> int:
        return self.loop.microseconds

    @property
    def server_time(self) -> int:
        return START + self.microseconds + self.server_wrong

    def wall(self, machine: int) -> int:
        return START + self.microseconds + self.wrong[machine]

    @property
    def now(self) -> datetime:
        return time_of(START + self.microseconds)

    def soon(self, step: Callable[[], None]) -> None:
        self.loop.call_later(self.dice.choice((0.0002, 0.002, 0.02)), step)

    def chance(self, of: str) -> bool:
        if self.calm or self.dice.random() >= RATES[of] * self.storm:
            return False
        self.note(of)
        return True

    def upto(self, most: int) -> int:
        return self.dice.randint(0, most)

    async def travel(self) -> None:
        """Wait while a message is under way; some are late, and some never arrive."""
        if self.chance("lost"):
            await asyncio.sleep(LOST_SECONDS)
        await asyncio.sleep(self.dice.uniform(0.5, 20) if self.chance("late") else self.dice.choice((0.001, 0.01)))

    def run(self, step: Coroutine[Any, Any, None]) -> None:
        """Let something go on by itself, until the end at the latest."""
        task = self.loop.create_task(step)
        self._going[task] = None
        task.add_done_callback(lambda done: self._going.pop(done, None))

    def note(self, event: str, *told: object) -> None:
        """Write a line of the trace."""
        self.counts[event] += 1
        line = f"{self.microseconds} {event} {told}\n"
        self.trace.update(line.encode())
        if self.lines is not None:
            self.lines.append(line)

    def saw(self, operation: Operation, result: Any, ledger_time: int, at: int) -> None:
        """Do the same in the reference, and compare."""
        if self.promoted:
            raise Violation(
                f"{operation.kind} was carried out on a replica that lacks records that its ledger has seen"
            )
        if operation.kind != "release":
            self._check_time(operation, ledger_time, at)
        size = 1 if operation.asked is None or operation.kind == "move" else len(operation.asked)
        if operation.kind == "authorize":
            size = sum(len(call) for call in operation.asked)
        self.operations += size
        known = len(self.reference.requests)
        try:
            wanted = self._do(operation, ledger_time)
        except Refused:
            wanted = "refused"
        if len(self.reference.requests) > known:
            self._check_date(operation.at, START + at)
        found = plain(operation.kind, result)
        if result is not None and found != wanted:
            check(found, wanted, f"{operation.kind} {operation.asked}")
        self.reference.check_bounds()
        self.note(operation.kind, wanted)

    def until_over(self, story: Coroutine[Any, Any, None]) -> None:
        """Run the loop until a story ends.

        Raises:
            Violation: the ledger did what it must not, there or anywhere.
        """
        task = self.loop.create_task(story)
        task.add_done_callback(lambda _: self._finish())
        try:
            self.loop.run_until_complete(self._over)
            if self.failure is None:
                task.result()
        finally:
            self.calm = True
            if self.failure is not None:
                task.cancel()
            for each in list(self._going):
                each.cancel()
            for process in self.processes:
                process.kill()
            self.loop.set_exception_handler(lambda *_: None)
            self.loop.run_until_complete(asyncio.sleep(0))
            self.loop.run_until_complete(asyncio.sleep(0))
            self.loop.close()
            if self.server is not None:
                self.server.close()
        if self.failure is not None:
            raise self.failure

    def witnessed(self) -> Sequence[int]:
        """Numbers of records that the witness has noted."""
        noted = orjson.loads((self.folder / "witness.json").read_bytes())
        return [noted[name] for name in ("decisions", "outcomes", "corrections", "moves")]

    def _do(self, operation: Operation, ledger_time: int) -> Any:
        asked, reference = operation.asked, self.reference
        reference.date = time_of(operation.at)
        if operation.kind in ("authorize", "settle", "correct"):
            return getattr(reference, operation.kind)(asked, ledger_time)
        if operation.kind == "release":
            return reference.release(asked)
        if operation.kind == "move":
            step, move, bounds, end = asked
            return reference.move(step, move, bounds, end, operation.at)
        return reference.expire(ledger_time)

    def _check_time(self, operation: Operation, ledger_time: int, at: int) -> None:
        """Raise :class:`Violation` where ledger time has advanced by more than the true time."""
        lag = at - ledger_time
        first, most = self._lags or (lag, lag)
        early = max(first - lag, most - lag - CATCH_UP)
        if early > 0:
            raise Violation(f"{operation.kind}: {early} microseconds passed for the ledger that never passed")
        self._lags = first, max(most, lag)

    def _check_date(self, date: int, at: int) -> None:
        """Raise :class:`Violation` where a decision is dated before another one, or ahead of the true time."""
        if not self._date - TOLERANCE <= date <= at + TOLERANCE:
            raise Violation(f"a decision is dated {time_of(date)} after one of {time_of(self._date)}, at {time_of(at)}")
        self._date = max(self._date, date)

    def _fail(self, error: BaseException | None, context: Any) -> None:
        self.failure = self.failure or error or RuntimeError(context["message"])
        self._finish()

    def _finish(self) -> None:
        if not self._over.done():
            self._over.set_result(None)


def plain(kind: str, result: Any) -> Any:
    """Return the result of an operation as the reference has it."""
    if isinstance(result, Conflict):
        return "refused"
    if isinstance(result, Counted):
        return result.accepted, result.repeated
    if kind != "authorize" or result is None:
        return result
    return [
        None
        if isinstance(answer, Conflict)
        else [
            row
            and ((row.decision.level, row.decision.incentive, row.decision.reason, row.decision.limited_by), row.repeat)
            for row in answer
        ]
        for answer in result
    ]


def make_campaign(dice: random.Random) -> Campaign:
    """Return a campaign with up to four budgets and three caps that overlap, of which some are soon used up."""
    sides = [None, "customer", "merchant"]
    budgets = tuple(
        GroupBudget(
            name=f"budget-{place}",
            limit=dice.choice([0, 300, 3_000, 100_000]),
            period=dice.choice(list(PERIODS)),
            side=dice.choice(sides),
            partners=dice.choice([(), ("bakery",), ("bakery", "kiosk")]),
            where=dice.choice(["", "", ADA]),
            sense="at_least" if dice.random() < 0.2 else "at_most",
        )
        for place in range(dice.randint(0, 4))
    )
    caps = tuple(
        Cap(
            name=f"cap-{place}",
            per=dice.choice(["account", "partner"]),
            count=dice.choice([None, 1, 10, 100]),
            amount=dice.choice([130, 1_000, 5_000]),
            period=dice.choice(list(PERIODS)),
            side=dice.choice(sides),
        )
        for place in range(dice.randint(0, 3))
    )
    rolling = tuple(
        replace(budget, rolls_over=budget.enforced and budget.period != "campaign" and dice.random() < 0.5)
        for budget in budgets
    )
    limit = dice.choice([2_000, 50_000, 500_000])
    portfolio = PortfolioTerms(
        name="company", floor=limit // 2, cap=2 * limit, largest_move=limit, hours_between=dice.choice([0.001, 0.1])
    )
    return Campaign(
        name="simulated",
        sides={"customer": Terms(levels=LEVELS["customer"]), "merchant": dice.choice(MERCHANTS)},
        budget=Budget(form="total", limit=limit),
        portfolio=portfolio,
        late_reserve=dice.choice([0, 0, 300]),
        starts_at=time_of(START),
        authorization_ttl_hours=TTL_HOURS,
        limits=Limits(budgets=rolling, caps=caps, time_zone=dice.choice(["UTC", "Asia/Kolkata", "Europe/Berlin"])),
    )
