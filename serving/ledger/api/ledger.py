"""Endpoints of one campaign's ledger."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson
from prometheus_client.registry import Collector
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from serving.ledger.api.answers import content, recorded_rows
from serving.ledger.api.authorize import calls, ceiling, entries
from serving.ledger.api.corrections import CorrectionEvent, corrections
from serving.ledger.api.events import Event
from serving.ledger.api.headroom import HeadroomCollector
from serving.ledger.api.messages import Authorizations, MoveStep, Releases
from serving.ledger.api.metrics import LedgerCollector
from serving.ledger.api.queries import limit_of, since_of, wanted_of
from serving.ledger.api.settle import outcomes
from serving.ledger.api.skew import ClockSkew
from serving.ledger.api.usage import limits_now, owners_now, places_now
from serving.ledger.api.watch import WatchCollector
from serving.ledger.clock import time_of
from serving.ledger.moves import Allowance
from serving.ledger.records import Ceiling, Counted
from serving.ledger.store import Store
from serving.ledger.terms import offered
from shadowprice.campaign import Campaign
from shadowprice.errors import Conflict, NotFound, Unavailable

Trouble = Callable[[], str | None]


class Ledger:
    """Calls of one campaign.

    hard_stop  refuse money that the budget does not have
    troubles   return why the ledger is not ready, beside the store's own reasons; None where all is well
    volumes    folders whose free space is exported, by name
    verdict    file of the watch on the served model, whose findings are exported
    """

    def __init__(
        self,
        store: Store,
        campaign: Campaign,
        hard_stop: bool = True,
        volumes: Mapping[str, Path] = MappingProxyType({}),
        troubles: Sequence[Trouble] = (),
        verdict: Path | None = None,
    ) -> None:
        self.campaign = campaign
        self.store = store
        self.troubles: list[Trouble] = [lambda: store.trouble, *troubles]
        self._hard_stop = hard_stop
        self._fixed = ceiling(campaign, hard_stop, campaign.starts_at)
        # One at a time, so that callers of the traffic never take all threads.
        self._traffic_turn = asyncio.Semaphore(1)
        self._collector = LedgerCollector(campaign, store, ClockSkew(store.dates).seconds)
        self.collectors: list[Collector] = [self._collector, HeadroomCollector(campaign.name, store.storage, volumes)]
        if verdict is not None:
            self.collectors.append(WatchCollector(campaign, verdict))

    def _ceiling(self, at: int) -> Ceiling | None:
        """Return the most that may be authorized and spent at a time in microseconds."""
        if not self.campaign.limits.roll_over:
            return self._fixed
        return ceiling(self.campaign, self._hard_stop, time_of(at))

    async def authorize(self, batch: Authorizations) -> bytes:
        """Record the decisions of a message."""
        at = self.store.date()
        wanted = calls(batch, entries(self.campaign, batch, time_of(at)))
        answers = await asyncio.wrap_future(self.store.authorize(wanted, self._ceiling(at), at))
        recorded, places = recorded_rows(batch, answers)
        for row in recorded:
            if row.repeat:
                self._collector.count_repeat(row.decision.side, row.decision.level)
        return orjson.dumps(content(recorded, places, answers))

    async def settle(self, events: Sequence[Event], caller: str) -> Counted:
        """Capture outcomes; ``caller`` is the name of the token that was shown."""
        at = self.store.date()
        decided = await run_in_threadpool(self.store.find, [event.request_id for event in events])
        made = outcomes(self.campaign, events, decided, time_of(at), caller)
        return await asyncio.wrap_future(self.store.settle(made, self._ceiling(at), at))

    async def correct(self, events: Sequence[CorrectionEvent], caller: str) -> Counted:
        """Correct outcomes; ``caller`` is the name of the token that was shown."""
        at = self.store.date()
        decided = await run_in_threadpool(self.store.find, [event.event.request_id for event in events])
        made = corrections(self.campaign, events, decided, time_of(at), caller)
        return await asyncio.wrap_future(self.store.correct(made, self._ceiling(at), at))

    async def release(self, given: Releases) -> Counted:
        """Return authorizations that will not be used."""
        wanted = list(dict.fromkeys(given.request_ids))
        decided = await run_in_threadpool(self.store.find, wanted)
        for index, request_id in enumerate(given.request_ids):
            if request_id not in decided:
                raise NotFound(f"request_ids[{index}]: request {request_id!r} was never decided")
        return await asyncio.wrap_future(self.store.release(wanted, self.store.date()))

    async def move(self, asked: MoveStep) -> dict[str, Any]:
        """Take a step of a move of budget, and return the state of this half."""
        if not self._hard_stop:
            raise Conflict(f"campaign {self.campaign.name!r} has no hard stop: a move of its budget would bind nothing")
        bounds, at = Allowance.of(self.campaign), self.store.date()
        state = await asyncio.wrap_future(self.store.move(asked.step, asked.move, bounds, asked.end, at))
        return {"campaign": self.campaign.name, "id": asked.id, "state": state}

    async def moves(self) -> dict[str, Any]:
        """Return the moves that this ledger knows, the oldest first."""
        rows = await run_in_threadpool(self.store.moves)
        return {"campaign": self.campaign.name, "moves": [row.to_dict() for row in rows]}

    async def totals(self) -> dict[str, Any]:
        """Return the sums."""
        now = time_of(self.store.date())
        totals = await run_in_threadpool(self.store.totals)
        limits = await run_in_threadpool(limits_now, self.campaign, self.store.usage, now)
        return {
            "campaign": self.campaign.name,
            "observed_at": now,
            "budget": self.campaign.to_dict()["budget"],
            "hard_stop": self._hard_stop,
            "spent": sum(totals.spent.values()),
            "spent_by_side": totals.spent,
            "refunded_by_side": totals.refunded,
            "net_spent": totals.net_spent,
            "overridden_by_side": totals.overridden,
            "authorized": sum(totals.authorized.values()),
            "outstanding": sum(totals.outstanding.values()),
            "moved": totals.moved,
            "money_left": totals.money_left(self.campaign, now),
            "requests": totals.requests,
            "responses": totals.responses,
            "withdrawn_by_side": totals.withdrawn,
            "outcomes": totals.outcomes,
            "corrections_by_side": totals.corrected,
            "late_by_side": totals.late,
            "authorized_by_side": totals.authorized,
            "limits": [asdict(limit) for limit in limits],
            "places": await run_in_threadpool(places_now, self.campaign, self.store.usage),
        }

    async def traffic(self, request: Request) -> dict[str, Any]:
        """Return requests by time."""
        since, limit = since_of(request), limit_of(request)
        async with self._traffic_turn:
            traffic = await run_in_threadpool(self.store.traffic, since, limit)
        return {"campaign": self.campaign.name, **asdict(traffic)}

    async def usage(self, request: Request) -> dict[str, Any]:
        """Return the use of a limit by its owners."""
        wanted, now = wanted_of(request), time_of(self.store.date())
        async with self._traffic_turn:
            return asdict(await run_in_threadpool(owners_now, self.campaign, self.store.owners, wanted, now))

    def check_ready(self) -> dict[str, Any]:
        """Return name and levels if it can read, its newest write succeeded, and its store has all that was recorded.

        Raises:
            Unavailable: one of these does not hold.
        """
        for trouble in self.troubles:
            reason = trouble()
            if reason is not None:
                raise Unavailable(reason)
        self.store.totals()
        if not self.store.alive:
            raise Unavailable("the ledger's writer has stopped; restart the service")
        return {"campaign": self.campaign.name, "levels": offered(self.campaign)}
