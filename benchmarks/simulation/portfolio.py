"""Moves of budget between real stores, with whatever may happen between any two steps of a coordinator.

Everything drawn comes from the seed. At each call a coordinator may be killed before or after, its answer may be lost,
the call may come twice or much later, a ledger may start again with a wrong clock, and another coordinator may run in
between. After each call the sum of all limits and of the money under way must be what it was at the begin.

A ledger in a file may also be restored from an old backup, in the midst of a move, and recovered from its log. Until a
person has compared its moves with those of the others, the sum is at most what it was.
"""

import random
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.faults.redis_server import RedisServer
from benchmarks.simulation.reference import Violation
from benchmarks.simulation.run import MEMORY, StoreKind
from benchmarks.simulation.world import START, TTL_HOURS
from serving.ledger.api.authorize import ceiling, entries
from serving.ledger.api.items import Items
from serving.ledger.api.messages import Authorizations
from serving.ledger.clock import time_of
from serving.ledger.log import LogWriter
from serving.ledger.moves import Allowance, Move, MoveRow, State, Step
from serving.ledger.opening import open_store
from serving.ledger.sqlite.backup import backup
from serving.ledger.store import Store
from serving.portfolio import carry
from serving.recover import recover
from shadowprice.campaign import Budget, Campaign, PortfolioTerms, Terms
from shadowprice.errors import Conflict, ShadowpriceError, Unavailable
from shadowprice.pacing.decision_log.served import read_log

NAMES = ("spring", "merchants", "lapsed")
LIMIT = 1_000
CHANCES = {"killed before": 0.04, "killed after": 0.06, "lost": 0.05, "twice": 0.1, "later": 0.05, "restart": 0.03}
CHANCES |= {"taken back": 0.1, "copied": 0.1, "restored": 0.02, "compared": 0.3}
HOUR = 3_600_000_000
PRICES = (0.1, 0.0, 0.2), (0.3, 0.2, 0.4)


class Killed(BaseException):
    """A coordinator ends between two steps."""


@dataclass
class Ledgers:
    """Ledgers of the campaigns, their stores and what happens to them."""

    dice: random.Random
    folder: Path
    url: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    trace: list[str] = field(default_factory=list)
    calm: bool = False
    now: int = START

    def __post_init__(self) -> None:
        self.campaigns = {name: _campaign(name) for name in NAMES}
        self.wrong = dict.fromkeys(NAMES, 0)
        self.stores: dict[str, Store] = {}
        self._late: list[tuple[str, Callable[[], object]]] = []
        self.held_at: dict[str, int] = {}
        self._serial = 0
        self.depth = 0
        for name in NAMES:
            self.open(name)

    def open(self, name: str) -> None:
        if name in self.stores:
            self.stores.pop(name).close()
        campaign, wall = self.campaigns[name], lambda: self.now + self.wrong[name]
        db = self.folder / f"{name}.db"
        self.stores[name] = open_store(campaign, db, self.url, clock=lambda: self.now, wall=wall)

    def copy(self) -> None:
        name = self.dice.choice(NAMES)
        copy = self.folder / f"{name}.copy"
        copy.unlink(missing_ok=True)
        backup(self.folder / f"{name}.db", copy)

    def restore(self, name: str) -> None:
        """Put the newest backup of a ledger in its place, and recover it from its log."""
        copy, db, log = (self.folder / f"{name}{end}" for end in (".copy", ".db", ".log"))
        if not copy.exists():
            return
        LogWriter(self.stores[name], log).write()
        self.stores.pop(name).close()
        for end in ("", "-wal", "-shm"):
            db.with_name(db.name + end).unlink(missing_ok=True)
        shutil.copy(copy, db)
        # Nobody waits for the answer of a call to a ledger that has ended.
        self._late = [late for late in self._late if late[0] != name]
        self.open(name)
        if any(log.glob("*.parquet")):
            recover(self.stores[name], self.campaigns[name], read_log(log))
        self.held_at[name] = max(self.used(name), self.limit(name))
        self._note(f"restored {name} recovered")
        self.check()

    def compare(self) -> None:
        """Compare the moves of restored ledgers with the others, as a person does who has stopped the job."""
        while self._late:
            with suppress(ShadowpriceError):
                self._late.pop(0)[1]()
        self.depth += 2
        with suppress(Killed, Unavailable):
            carry.restore({name: _Ledger(self, name) for name in NAMES})
        self.depth -= 2
        self.held_at = {name: most for name, most in self.held_at.items() if carry.holds(self.stores[name].moves())}
        self.check()

    def limit(self, name: str) -> int:
        return LIMIT + self.stores[name].totals().moved

    def used(self, name: str) -> int:
        """Minor units held for requests or spent."""
        totals = self.stores[name].totals()
        return sum(totals.outstanding.values()) + totals.net_spent

    def close(self) -> None:
        for store in self.stores.values():
            store.close()

    def chance(self, of: str) -> bool:
        if self.calm or self.dice.random() >= CHANCES[of]:
            return False
        self.counts[of] += 1
        return True

    def step(self, name: str, step: Step, move: Move, end: State | None) -> State:
        """Take a step in a ledger, and check the sums."""
        store = self.stores[name]
        try:
            state = store.move(step, move, Allowance.of(self.campaigns[name]), end, store.date()).result(30)
        except Conflict as error:
            self._note(f"{step} {_named(move)} refused {str(error).removeprefix(f'move {move.id!r}')}")
            raise
        finally:
            self.check()
        self._note(f"{step} {_named(move)} {state}")
        return state

    def call(self, name: str, step: Step, move: Move, end: State | None) -> State:
        """Take a step as a coordinator does, over a network."""
        self.now += self.dice.choice((1_000, 60_000_000, HOUR // 3))
        if self.chance("killed before"):
            raise Killed
        if self.chance("restart"):
            self.wrong[name] = self.dice.choice((-96, -1, 0)) * HOUR
            self.open(name)
        if self.chance("later"):
            self._late.append((name, lambda: self.step(name, step, move, end)))
            raise Unavailable("no answer")
        if not self.url and self.depth < 2 and self.chance("restored"):
            self.restore(name)
        if self.depth < 2 and not self.calm and self.dice.random() < 0.05:
            self.counts["two coordinators"] += 1
            self.run()
        self.authorize()
        state = self.step(name, step, move, end)
        if self.chance("twice"):
            self.step(name, step, move, end)
        if self.chance("killed after"):
            raise Killed
        if self.chance("lost"):
            raise Unavailable("the answer was lost")
        return state

    def run(self) -> None:
        """Run a coordinator, which may be killed: go on with what is under way, then move something new."""
        self.depth += 1
        try:
            with suppress(Killed, ShadowpriceError):
                ledgers: Mapping[str, carry.MovesLedger] = {name: _Ledger(self, name) for name in NAMES}
                if self.chance("taken back"):
                    under_way = [row.move for each in ledgers.values() for row in carry.under_way(each.moves())]
                    for move in under_way[:1]:
                        carry.take_back(move, ledgers)
                carry.complete(ledgers)
                source, target = self.dice.sample(NAMES, 2)
                amount = self.dice.choice((1, 50, 300, 700))
                slot = f"{self.now // HOUR}"
                move = Move(f"{slot}|{source}|{target}", source, target, amount, self.now // 1_000_000, *PRICES, "")
                carry.carry_out(move, ledgers)
        finally:
            self.depth -= 1

    def authorize(self) -> None:
        """Let some requests take money; sometimes what came late arrives."""
        name = self.dice.choice(NAMES)
        if self._late and self.dice.random() < 0.3:
            with suppress(ShadowpriceError):
                self._late.pop(self.dice.randrange(len(self._late)))[1]()
        if self.dice.random() < 0.2:
            self._serial += 1
            campaign, store = self.campaigns[name], self.stores[name]
            rows = entries(campaign, _request(campaign, self._serial), time_of(store.date()))
            bound = ceiling(campaign, True, time_of(store.date()))
            with suppress(Unavailable):
                store.authorize([rows], bound, store.date()).result(30)
            self.check()

    def check(self) -> None:
        """Raise :class:`Violation` where money is granted twice, lost, or held beyond its limit."""
        rows = {name: {row.move.id: row for row in store.moves()} for name, store in self.stores.items()}
        limits = {name: self.limit(name) for name in NAMES}
        sent = [row.move for own in rows.values() for row in own.values() if row.state == "sent"]
        waits = sum(
            move.amount
            for move in sent
            if not {move.source, move.target} & self.held_at.keys() and _state(rows[move.target], move.id) != "taken"
        )
        found, whole = sum(limits.values()) + waits, LIMIT * len(NAMES)
        if found > whole or (found < whole and not self.held_at):
            raise Violation(f"limits {limits} and {waits} under way are not {whole} together")
        for name in NAMES:
            most = max(limits[name], self.held_at.get(name, 0))
            self.held_at |= {name: most} if name in self.held_at else {}
            if (used := self.used(name)) > most:
                raise Violation(f"{used} of {most} are held or spent of {name}")

    def _note(self, line: str) -> None:
        self.counts[line.split(" ", 1)[0]] += 1
        self.trace.append(line)


@dataclass(frozen=True)
class _Ledger:
    """Ledger as a coordinator reaches it."""

    ledgers: Ledgers
    name: str

    def move(self, campaign: str, step: Step, move: Move, end: State | None = None) -> State:
        assert campaign == self.name
        return self.ledgers.call(self.name, step, move, end)

    def moves(self) -> list[MoveRow]:
        return self.ledgers.stores[self.name].moves()

    def totals(self) -> dict[str, Any]:
        """Totals, as far as a coordinator reads them."""
        totals = self.ledgers.stores[self.name].totals()
        return {
            "budget": {"limit": LIMIT},
            "moved": totals.moved,
            "net_spent": totals.net_spent,
            "outstanding": sum(totals.outstanding.values()),
            "overridden_by_side": totals.overridden,
        }


def simulate_moves(seed: int, runs: int, folder: Path, url: str = "") -> Ledgers:
    """Run coordinators ``runs`` times, let all faults end, and check that no money is left under way.

    ``url`` is that of an empty Redis; without it the stores are files in ``folder``.

    Raises:
        Violation: money was granted twice, lost or left under way.
    """
    ledgers = Ledgers(random.Random(f"{seed}/moves"), folder, url)
    try:
        for _ in range(runs):
            ledgers.now += ledgers.dice.choice((60_000_000, HOUR, 3 * HOUR))
            ledgers.run()
            if not url and ledgers.chance("copied"):
                ledgers.copy()
            if ledgers.held_at and ledgers.chance("compared"):
                ledgers.compare()
        ledgers.calm = True
        for name in NAMES:
            ledgers.wrong[name] = 0
            ledgers.open(name)
        for _ in range(3 if ledgers.held_at else 0):
            ledgers.compare()
        # A ledger whose date its Redis refuses answers the call after.
        for _ in range(2 * len(NAMES)):
            ledgers.run()
        if left := [row.move.id for store in ledgers.stores.values() for row in store.moves() if row.state == "sent"]:
            raise Violation(f"{left} never end")
    finally:
        ledgers.close()
    return ledgers


def simulate_moves_anew(seed: int, runs: int, kind: StoreKind) -> Counter[str]:
    """Simulate in a new folder, and with a new Redis; see :func:`simulate_moves`."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="moves", dir=MEMORY if MEMORY.is_dir() else None)))
        server = RedisServer(folder / "redis") if kind == "redis" else None
        if server is not None:
            server.start()
            stack.callback(server.stop)
        return simulate_moves(seed, runs, folder, "" if server is None else server.url).counts


def _named(move: Move) -> str:
    # What is held back has a random id.
    return "held" if move.held else move.id


def _state(rows: Mapping[str, MoveRow], name: str) -> str:
    return rows[name].state if name in rows else ""


def _campaign(name: str) -> Campaign:
    terms = PortfolioTerms(name="company", floor=200, cap=1_600, largest_move=700, hours_between=0.1)
    return Campaign(
        name=name,
        sides={"customer": Terms(levels=(0, 50))},
        budget=Budget(limit=LIMIT),
        starts_at=time_of(START),
        authorization_ttl_hours=TTL_HOURS,
        portfolio=terms,
    )


def _request(campaign: Campaign, serial: int) -> Authorizations:
    row: dict[str, Any] = {
        "request_id": f"request-{serial}",
        "account_id": f"account-{serial}",
        "side": "customer",
        "level": 1,
        "incentive": 50,
        "response": 0.25,
        "expected_cost": 12.5,
        "propensity": 0.5,
        "propensities": [0.5, 0.5],
        "reason": "tie",
        "features_at": None,
        "response_unpaid": 0.125,
        "partner_id": "",
        "groups": "",
    }
    items = Items(**{name: [value] for name, value in row.items()})
    return Authorizations(campaign=campaign.name, model_version="m", price_version=1, items=items)
