"""Settling: what became of a promise, counted once however often it is reported."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import datetime

from serving.ledger.database import microseconds
from serving.ledger.events import Event
from serving.ledger.messages import Unprocessable
from shadowprice.campaign import Campaign, Side
from shadowprice.errors import Conflict, NotFound


@dataclass(frozen=True)
class Settled:
    """How many events were new, and how many had been taken before."""

    accepted: int
    repeated: int


@dataclass(frozen=True)
class Settle:
    """A job of the writer: take the outcomes of one call, all or none.

    A request is settled once. The same outcome may arrive again, by the same event or another; a
    different one is refused. Settling releases the promise and books the cost that was reported.
    """

    campaign: Campaign
    events: list[Event]
    recorded_at: datetime

    def __call__(self, database: sqlite3.Connection) -> Settled:
        """Count the events.

        Raises:
            NotFound: a request that was never decided; the message names it.
            Conflict: an event id, or a request, that was reported before with another content.
            Unprocessable: an outcome that cannot be, such as a cost above what was promised.
        """
        accepted = sum(self._settle(database, event) for event in self.events)
        return Settled(accepted, len(self.events) - accepted)

    def _settle(self, database: sqlite3.Connection, event: Event) -> bool:
        """Whether the event was new."""
        same = database.execute(
            "SELECT content FROM outcome WHERE source = ? AND event_id = ?", (event.source, event.event_id)
        ).fetchone()
        if same is not None:
            if same[0] != event.content:
                raise Conflict(
                    f"{event.where}.id: event {event.event_id!r} was received before with another content".lstrip(".")
                )
            return False
        found = database.execute(
            "SELECT decision.side, decision.incentive, outcome.response, outcome.cost FROM decision"
            " LEFT JOIN outcome USING (request_id) WHERE decision.request_id = ?",
            (event.request_id,),
        ).fetchone()
        if found is None:
            raise NotFound(f"{_field(event, 'request_id')}: request {event.request_id!r} was never decided")
        side, incentive, response, cost = found
        if cost is not None:
            if (response, cost) != (event.response, event.cost):
                raise Conflict(
                    f"{_field(event, 'request_id')}: request {event.request_id!r} is settled with response {response} "
                    f"and cost {cost}"
                )
            return False
        self._check(side, incentive, event)
        database.execute(
            "INSERT INTO outcome (source, event_id, request_id, response, cost, content, recorded_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                event.source,
                event.event_id,
                event.request_id,
                event.response,
                event.cost,
                event.content,
                microseconds(self.recorded_at),
            ),
        )
        database.execute(
            "INSERT INTO settlement (side, outcomes, released, spent, responses) VALUES (?, 1, ?, ?, ?)"
            " ON CONFLICT (side) DO UPDATE SET outcomes = outcomes + 1, released = released + excluded.released,"
            " spent = spent + excluded.spent, responses = responses + excluded.responses",
            (side, incentive, event.cost, event.response),
        )
        return True

    def _check(self, side: Side, incentive: int, event: Event) -> None:
        if side == "customer":
            if event.redeemed is None:
                raise Unprocessable("is required for a customer", field=_field(event, "redeemed"))
            if event.response != float(event.redeemed):
                raise Unprocessable("of a customer must equal redeemed", field=_field(event, "response"))
            if not event.redeemed and event.cost and self.campaign.terms(side).cost_basis == "on_response":
                raise Unprocessable("must be 0 where nothing was redeemed", field=_field(event, "cost"))
        # A merchant paid on response is paid per unit of it, and may bring more than one.
        bounded = side == "customer" or self.campaign.terms(side).cost_basis == "on_grant"
        if bounded and event.cost > incentive:
            raise Unprocessable(f"is above the {incentive} minor units that were promised", field=_field(event, "cost"))


def _field(event: Event, name: str) -> str:
    return f"{event.where}.data.{name}".lstrip(".")
