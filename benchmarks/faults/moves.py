"""Attacks on moves of budget between the campaigns of one ledger process, while requests take money.

Coordinators share the ids of their moves, end between two steps, ask for more than is unspent, repeat old steps with
the same and with another content, and take moves back. Meanwhile the ledger is killed and its clock jumps.
"""

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Lock

from benchmarks.faults.load import Load
from benchmarks.faults.redis_server import RedisServer
from benchmarks.faults.stage import AHEAD_SECONDS, LEVELS, MOST_UNITS, READY_SECONDS
from benchmarks.faults.threads import Threads
from benchmarks.faults.wall_clock import WallClock
from serving.client.client import LedgerClient
from serving.ledger.moves import Move
from serving.local.launch import HOST, Service, free_port
from serving.portfolio import carry
from shadowprice.campaign import Budget, Campaign, PortfolioTerms, Side, Terms
from shadowprice.errors import Conflict, ShadowpriceError

NAMES = ("spring", "merchants", "lapsed")
LIMIT = 20_000
TERMS = PortfolioTerms(name="company", floor=1_000, cap=45_000, largest_move=LIMIT, hours_between=1e-6)
ATTACKERS = 2
"""Threads of each kind."""
SLOT_SECONDS = 0.2
"""Time in which coordinators make moves of the same ids."""
FAULTS = ("none", "killed", "clock ahead", "killed", "clock behind")
Ledgers = Mapping[str, LedgerClient]


class Attack(Threads):
    """Coordinators that attack the ledger at ``url`` until they are stopped."""

    def __init__(self, url: str, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        super().__init__()
        self._url, self._lock = url, Lock()
        self._known: list[Move] = []
        actors = [self._coordinate, self._coordinate, self._replay, self._watch] * ATTACKERS
        self.start(partial(self._run, act, random.Random(f"{seed}/{number}")) for number, act in enumerate(actors))

    def _run(self, act: Callable[[Ledgers, random.Random], None], dice: random.Random) -> None:
        with ExitStack() as opened:
            ledgers = clients(self._url, opened)
            while not self._stop.is_set():
                try:
                    act(ledgers, dice)
                except ShadowpriceError as error:
                    self._count(type(error).__name__)
                    self._stop.wait(0.01)

    def _coordinate(self, ledgers: Ledgers, dice: random.Random) -> None:
        source, target = dice.sample(NAMES, 2)
        slot = int(time.time() / SLOT_SECONDS)
        # Another content of the same id in one of ten; more than there is in one of five.
        amount = dice.choice((10, 400, 400, 3_000, 60_000)) if dice.random() < 0.1 else (400, 3_000, 60_000)[slot % 3]
        prices = ((0.1, 0.0, 0.2), (0.3, 0.2, 0.4))
        move = Move(f"{slot}|{source}|{target}", source, target, amount, slot, *prices, "an attack")
        with self._lock:
            self._known.append(move)
        end = dice.random()
        if end < 0.3:
            # The coordinator ends after its first step.
            self._count(ledgers[source].move(source, "give", move))
        elif end < 0.4:
            carry.complete(ledgers)
        elif end < 0.5:
            for row in carry.under_way(ledgers[source].moves())[:1]:
                self._count(f"taken back: {carry.take_back(row.move, ledgers)}")
        else:
            self._count(carry.carry_out(move, ledgers))

    def _replay(self, ledgers: Ledgers, dice: random.Random) -> None:
        with self._lock:
            move = dice.choice(self._known) if self._known else None
        if move is None:
            return
        # Only the giver can tell a receiver what a move that it does not know yet is.
        given, taken = ({row.move.id: row for row in ledgers[name].moves()} for name in (move.source, move.target))
        if move.id in taken and dice.random() < 0.3:
            with suppress(Conflict):
                ledgers[move.target].move(move.target, "take", move._replace(amount=taken[move.id].move.amount + 1))
                self.wrong.append(f"{move.id} was taken with another amount")
        for _ in range(dice.randrange(1, 4) if move.id in given else 0):
            ledgers[move.source].move(move.source, "give", given[move.id].move)
            ledgers[move.target].move(move.target, "take", given[move.id].move)
            self._count("replayed")

    def _watch(self, ledgers: Ledgers, dice: random.Random) -> None:
        name = dice.choice(NAMES)
        used, limit = used_of(ledgers[name])
        if used > limit:
            self.wrong.append(f"{used} of {limit} are held or spent of {name}")
        self._count("watched")

    def _count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1


def clients(url: str, opened: ExitStack) -> Ledgers:
    return {name: opened.enter_context(LedgerClient(url, name)) for name in NAMES}


def used_of(ledger: LedgerClient) -> tuple[int, int]:
    """Minor units that are held or spent, and the limit, of one moment."""
    totals = ledger.totals()
    return totals["net_spent"] + totals["outstanding"], int(totals["budget"]["limit"]) + totals["moved"]


def together(ledgers: Ledgers) -> int:
    """All limits and what is under way, while nothing moves."""
    limits = sum(used_of(ledger)[1] for ledger in ledgers.values())
    rows = {name: {row.move.id: row for row in ledger.moves()} for name, ledger in ledgers.items()}
    sent = [row.move for own in rows.values() for row in carry.under_way(list(own.values()))]
    taken = {name: {key for key, row in own.items() if row.state == "taken"} for name, own in rows.items()}
    return limits + sum(move.amount for move in sent if move.id not in taken[move.target])


def attack_moves(folder: Path, kind: str, rounds: int, seconds: float, seed: int = 0) -> Counter[str]:
    """Attack in rounds, each with a fault, and return what was counted.

    Args:
        folder: for the ledger's files.
        kind: of store, ``sqlite`` or ``redis``.
        rounds: the faults are of :data:`FAULTS` in turn.
        seconds: of each round.
        seed: of what the attackers draw.

    Raises:
        AssertionError: money was granted twice, lost, or left under way.
    """
    for name in NAMES:
        (folder / "campaigns" / name).mkdir(parents=True)
        terms: dict[Side, Terms] = {
            "customer": Terms(levels=LEVELS),
            "merchant": Terms(levels=LEVELS, most_units=MOST_UNITS),
        }
        campaign = Campaign(
            name=name,
            sides=terms,
            budget=Budget(limit=LIMIT),
            starts_at=datetime(2024, 5, 1, tzinfo=UTC),
            portfolio=TERMS,
        )
        (folder / "campaigns" / name / "campaign.json").write_text(json.dumps(campaign.to_dict()))
    (folder / "db").mkdir()
    clock, counts = WallClock(folder / "clock"), Counter[str]()
    with ExitStack() as ending:
        command = ["serving.ledger", "--campaigns", str(folder / "campaigns"), "--db", str(folder / "db")]
        if kind == "redis":
            server = RedisServer(folder / "redis")
            server.start()
            ending.callback(server.stop)
            command += ["--redis", server.url]
        port = free_port()
        command += ["--host", HOST, "--port", str(port)]
        ledger = _started(command, port, folder, clock)
        ending.callback(lambda: ledger.stop())
        ledgers = clients(ledger.url, ending)
        for number in range(rounds):
            attack = Attack(ledger.url, seed + number)
            loads = [Load(ledger.url, name, 1) for name in NAMES]
            time.sleep(seconds / 2)
            fault = FAULTS[number % len(FAULTS)]
            if fault == "killed":
                ledger.process.kill()
                ledger.process.wait()
                ledger = _started(command, port, folder, clock)
            elif fault != "none":
                clock.set(AHEAD_SECONDS if fault == "clock ahead" else -AHEAD_SECONDS)
            time.sleep(seconds / 2)
            attack.stop()
            for load in loads:
                load.stop()
            clock.set(0)
            assert not attack.wrong, attack.wrong
            assert (found := together(ledgers)) == LIMIT * len(NAMES), f"{found} after {fault}"
            counts += attack.counts + Counter({fault: 1, "decisions": sum(len(load.witness.answers) for load in loads)})
        assert carry.complete(ledgers) == ([], {})
        assert together(ledgers) == sum(used_of(each)[1] for each in ledgers.values()) == LIMIT * len(NAMES)
    return counts


def _started(command: list[str], port: int, folder: Path, clock: WallClock) -> Service:
    ledger = Service("ledger", command, port, "/readyz", folder / "ledger.log", launcher=clock.launcher)
    ledger.wait_ready(READY_SECONDS)
    return ledger
