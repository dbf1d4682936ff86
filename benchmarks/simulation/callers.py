"""Callers of the simulated ledgers: predictors that authorize, and shops that report, correct and return.

A caller sends what it does not know to be recorded again, or gives it up. The real client of the predictor chooses the
replica, its timeouts and its repetitions; its connections lead into the simulation.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal

import orjson

from benchmarks.simulation.reference import Given, Violation
from benchmarks.simulation.world import LEVELS, World
from serving.ledger.api.app import AUTHORIZATIONS
from serving.ledger.api.corrections import CorrectionEvent
from serving.ledger.api.events import Event
from serving.ledger.api.ledger import Ledger
from serving.ledger.api.messages import MoveStep, Releases, Unprocessable, parse
from serving.ledger.moves import Move, Step
from serving.ledger.records import Counted
from serving.predictor.ledger.authorizing import authorize
from serving.predictor.ledger.client import Authorizer, KnownRequests
from serving.predictor.ledger.columns import Proposals
from shadowprice.errors import Conflict, ShadowpriceError, Unavailable

ACTIVE: Any = SimpleNamespace(model=SimpleNamespace(version="m"), price=SimpleNamespace(version=1))
PARTNERS = ("", "bakery", "kiosk", "garage")
PAUSES = (0.01, 1.0, 60.0, 600.0, 3000.0)
WEIGHTS = (4, 4, 3, 3, 1)
PATIENCE_SECONDS = 3.0
Message = tuple[Proposals, KnownRequests, list[int]]


class Connection:
    """Takes the place of a connection of :mod:`serving.predictor.ledger.connection`."""

    world: World

    def __init__(self, place: int) -> None:
        self.open = True
        self._process = self.world.processes[place]

    async def exchange(self, request: bytes) -> tuple[int, bytes]:
        body = request.split(b"\r\n\r\n", 1)[1]

        async def call(ledger: Ledger) -> tuple[int, bytes]:
            try:
                return 200, await ledger.authorize(parse(AUTHORIZATIONS, body))
            except ShadowpriceError as error:
                return error.status, orjson.dumps({"error": str(error)})

        try:
            return await self._process.ask(call)
        except BaseException:
            self.open = False
            raise

    def close(self) -> None:
        self.open = False


async def connect(host: str, port: int) -> Connection:  # noqa: ARG001 - as the real one
    """Return a connection to the ledger that a host name ends with."""
    return Connection(int(host.rsplit("-", 1)[1]))


async def _move(step: MoveStep, ledger: Ledger) -> dict[str, Any]:
    return await ledger.move(step)


class Callers:
    """All callers, and what they were told."""

    def __init__(self, world: World, operations: int) -> None:
        self.world = world
        self.told: dict[str, Given] = {}
        self._dice = world.dice
        self._until = operations
        self._names: list[str] = []
        self._serial = 0
        Connection.world = world

    async def predict(self) -> None:
        """Authorize, until enough was done."""
        urls = ",".join(f"http://ledger-{process.machine}" for process in self.world.processes)
        client = Authorizer(urls, self.world.campaign.name)
        again: list[Message] = []
        while self._goes_on():
            message = again.pop(0) if again and self._dice.random() < 0.5 else self._message()
            try:
                found, _ = await authorize(client, *message, ACTIVE, required=True)
            except Unavailable:
                self.world.note("unavailable")
                if self._dice.random() < 0.8:
                    again.append(message)
            else:
                self._hear(vars(found.decisions))
            await self._pause()

    async def report(self) -> None:
        """Settle, correct and return, until enough was done."""
        again: list[Callable[[Ledger], Any]] = []
        while self._goes_on():
            await self._pause()
            if not self._names:
                continue
            call = again.pop(0) if again and self._dice.random() < 0.5 else self._call()
            process = self._dice.choice(self.world.processes)
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    done: Counted = await process.ask(call)
                self.world.note("told", done.accepted, done.repeated)
            except (Conflict, Unprocessable) as error:
                self.world.note("conflict" if isinstance(error, Conflict) else "misdated")
            except (OSError, TimeoutError, Unavailable):
                again.append(call)

    async def move(self) -> None:
        """Take steps of moves, of which some come again, otherwise or in the wrong order, until enough was done."""
        known: list[Move] = []
        while self._goes_on():
            await self._pause()
            process = self._dice.choice(self.world.processes)
            step = self._step(known)
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    state = (await process.ask(partial(_move, step)))["state"]
                self.world.note("moved", state)
            except Conflict:
                self.world.note("not moved")
            except (OSError, TimeoutError, Unavailable):
                self.world.note("perhaps moved")

    def _step(self, known: list[Move]) -> MoveStep:
        dice, own = self._dice, self.world.campaign.name
        if not known or dice.random() < 0.4:
            pair = (own, "other") if dice.random() < 0.5 else ("other", own)
            amount = dice.choice((1, 100, int(self.world.campaign.budget.limit) // 3))
            prices = (0.1, 0.0, 0.2), (0.3, 0.2, 0.4)
            undoes = "another" if dice.random() < 0.2 else ""
            known.append(Move(f"move-{len(known)}", *pair, amount, 0, *prices, "a reason", undoes))
        move = known[-1] if dice.random() < 0.5 else dice.choice(known)
        if dice.random() < 0.05:
            move = move._replace(amount=move.amount + 1)
        step: Step = "take" if move.target == own else dice.choice(("give", "finish"))
        ends: tuple[Literal["taken", "returned"], ...] = ("taken", "returned")
        end = dice.choice(ends) if step == "finish" else None
        return MoveStep(campaign=own, step=step, end=end, **move._asdict())

    def _goes_on(self) -> bool:
        return self.world.operations < self._until

    async def _pause(self) -> None:
        await asyncio.sleep(self._dice.choices(PAUSES, WEIGHTS)[0] * self._dice.random())

    def _hear(self, columns: dict[str, list[Any]]) -> None:
        """Keep what is answered for a request, which must be the same for ever."""
        for name, *given in zip(
            columns["request_id"], columns["level"], columns["incentive"], columns["reason"], columns["limited_by"],
            strict=True,
        ):  # fmt: skip
            told: Given = tuple(given)
            if self.told.setdefault(name, told) != told:
                raise Violation(f"request {name} was answered with {self.told[name]}, and then with {told}")
        self.world.note("heard", columns["request_id"])
        self._names = columns["request_id"] + self._names[:200]

    def _message(self) -> Message:
        """Return the proposals of some calls, and requests to look up."""
        columns: dict[str, list[Any]] = {}
        known = KnownRequests()
        sizes = []
        for call in range(self._dice.randint(1, 5)):
            rows = [self._row() for _ in range(self._dice.randint(1, 12))]
            asked = [row for row in rows if self._dice.random() < 0.05] if len(rows) > 1 else []
            for row in asked[: len(rows) - 1]:
                rows.remove(row)
                known.request_id.append(row["request_id"])
                known.account_id.append(row["account_id"])
                known.side.append(row["side"])
                known.call.append(call)
            sizes.append(len(rows))
            for row in rows:
                for name, value in row.items():
                    columns.setdefault(name, []).append(value)
        return Proposals(**columns), known, sizes

    def _row(self) -> dict[str, Any]:
        dice = self._dice
        if self._names and dice.random() < 0.1:
            name = dice.choice(self._names)
            known = self.world.reference.requests[name]
            account, side, partner = known.account, known.side, ""
            if dice.random() < 0.05:
                account = "somebody else"
        else:
            # The same new id may come twice in a message, also of two accounts.
            self._serial += dice.random() < 0.99
            name = f"request-{self._serial}"
            account = "ada" if dice.random() < 0.1 else f"account-{int(dice.paretovariate(0.5)) % 300}"
            side, partner = dice.choice(("customer", "customer", "merchant")), dice.choice(PARTNERS)
        levels = LEVELS[side]
        level = dice.randrange(len(levels))
        shares = [0.0] * len(levels)
        shares[level] = shares[level - 1] = 0.5
        groups = [budget.name for budget in self.world.campaign.limits.budgets if budget.where and account == "ada"]
        return {
            "request_id": name,
            "account_id": account,
            "side": side,
            "level": level,
            "incentive": levels[level],
            "response": 0.25,
            "expected_cost": 12.5,
            "propensity": 0.5,
            "basis": f"{self._serial:016d}AAAA",
            "propensities": shares,
            "reason": "tie",
            "features_at": None,
            "response_unpaid": 0.125,
            "partner_id": partner,
            "groups": ",".join(groups),
        }

    def _call(self) -> Callable[[Ledger], Any]:
        dice = self._dice
        kind = dice.choices(("settle", "correct", "release"), (6, 2, 1))[0]
        names = [dice.choice(self._names) for _ in range(dice.choice((1, 1, 2, 5, 20)) if kind == "settle" else 1)]
        if kind == "release":
            given = Releases(campaign=self.world.campaign.name, request_ids=names)
            return lambda ledger: ledger.release(given)
        events = [self._event(name, place) for place, name in enumerate(names)]
        if kind == "settle":
            return lambda ledger: ledger.settle(events, "shop")
        if self._serial % 20 == 0:
            events = [replace(event, observed_at=event.observed_at - timedelta(days=240)) for event in events]
        changes = [
            CorrectionEvent(event, dice.choice(("reversal", "reversal", "refund", "clawback")), dice.random() < 0.1)
            for event in events
        ]
        return lambda ledger: ledger.correct(changes, "desk")

    def _event(self, name: str, place: int) -> Event:
        dice, side = self._dice, self.world.reference.requests[name].side
        incentive, terms = self.told[name][1], self.world.campaign.terms(side)
        response = dice.choice((0.0, 1.0) if side == "customer" else (0.0, 0.5, 2.0, 5.0))
        units = min(response, terms.most_units) if terms.cost_basis == "on_response" else 1.0
        most = math.ceil(incentive * units)
        cost = dice.choice((0, most, most, most // 2)) if side == "merchant" or response else 0
        redeemed = bool(response) if side == "customer" else None
        self._serial += dice.random() < 0.98
        observed_at = self.world.now - timedelta(seconds=dice.choice((0, 30)))
        return Event(
            where=f"[{place}]",
            source="shop",
            event_id=f"event-{self._serial}",
            request_id=name,
            redeemed=redeemed,
            response=response,
            cost=cost,
            observed_at=observed_at,
            content=f"{name} {redeemed} {response} {cost}",
        )


def check_told(told: dict[str, Given], kept: Sequence[tuple[str, Given]]) -> None:
    """Raise :class:`Violation` where an authorization that a caller was told of is not recorded as it was told."""
    recorded = dict(kept)
    for name, given in told.items():
        if recorded.get(name) != given:
            raise Violation(f"request {name} was answered with {given}, and recorded is {recorded.get(name)}")
