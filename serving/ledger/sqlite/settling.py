"""Settle outcomes, as a job of the writer: one savepoint in its transaction."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field

from serving.ledger.records import Cause, Ceiling, Counted, ReportedOutcome
from serving.ledger.refusals import given_back, no_room, other_content, other_outcome
from serving.ledger.sqlite.authorizations import close_holds, committed, moved
from serving.ledger.sqlite.peers import Peers
from serving.ledger.sqlite.usage import add_usage, read_shares, read_usage
from shadowprice.limits.usage import exceeded


def is_repeat(database: sqlite3.Connection, outcome: ReportedOutcome) -> bool:
    """Return whether the event was recorded before; raise :class:`Conflict` where it had another content."""
    same = database.execute(
        "SELECT content FROM outcome WHERE source = ?1 AND event_id = ?2"
        " UNION ALL SELECT content FROM correction WHERE source = ?1 AND event_id = ?2",
        (outcome.source, outcome.event_id),
    ).fetchone()
    if same is not None and same[0] != outcome.content:
        raise other_content(outcome)
    return same is not None


def corrected(database: sqlite3.Connection, request_id: str) -> tuple[float, int, int | None] | None:
    """Response, cost and amount by the newest correction of a request; None where it has none."""
    newest: tuple[float, int, int | None] | None = database.execute(
        "SELECT response, cost, amount FROM correction WHERE request_id = ? ORDER BY sequence DESC LIMIT 1",
        (request_id,),
    ).fetchone()
    return newest


@dataclass(frozen=True)
class Settle:
    """:meth:`serving.ledger.store.Store.settle`."""

    outcomes: Sequence[ReportedOutcome]
    ceiling: Ceiling | None
    at: int
    now: int
    peers: Peers = field(default_factory=Peers)

    def __call__(self, database: sqlite3.Connection) -> Counted:
        """Book the outcomes that are new."""
        accepted = sum(self._book(database, outcome) for outcome in self.outcomes)
        return Counted(accepted, len(self.outcomes) - accepted)

    def _book(self, database: sqlite3.Connection, outcome: ReportedOutcome) -> bool:
        """Return whether the outcome was new."""
        if is_repeat(database, outcome):
            return False
        settled = database.execute(
            "SELECT response, cost, amount FROM outcome WHERE request_id = ?", (outcome.request_id,)
        ).fetchone()
        if settled is not None:
            standing = corrected(database, outcome.request_id) or settled
            told = outcome.response, outcome.cost
            if told not in (settled[:2], standing[:2]) or outcome.amount not in (None, settled[2], standing[2]):
                amount = settled[2] if standing[2] is None else standing[2]
                raise other_outcome(outcome, standing[0], standing[1], amount)
            return False
        # Whether money is late is a matter of the time, and not of when the sweep last came by.
        due = "request_id = ?1 AND CASE WHEN ?2 IS NULL THEN expires_at <= ?3 ELSE ?2 END"
        close_holds(database, due, (outcome.request_id, outcome.late, self.now), "expired", self.at)
        held = database.execute(
            "DELETE FROM hold WHERE request_id = ? RETURNING reserved", (outcome.request_id,)
        ).fetchone()
        released = database.execute(
            "SELECT cause, released_at FROM release WHERE request_id = ?", (outcome.request_id,)
        ).fetchone()
        sums = read_shares(database, [outcome.request_id]).get(outcome.request_id, [])
        if outcome.late is None:
            late = released is not None
            if late and outcome.cost:
                self._check_late(database, outcome, sums, *released)
        else:
            # Replayed from a log: it was captured, so it is captured again.
            late = outcome.late
        counted = 0 if held or (late and not outcome.cost) else 1
        add_usage(database, [(name, outcome.cost - (held[0] if held else 0), counted) for name in sums])
        database.execute(
            "INSERT INTO outcome (source, event_id, request_id, side, response, cost, late, content, observed_at,"
            " recorded_at, misdated, caller, amount) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                outcome.source,
                outcome.event_id,
                outcome.request_id,
                outcome.side,
                outcome.response,
                outcome.cost,
                late,
                outcome.content,
                outcome.observed_at,
                self.at,
                outcome.misdated,
                outcome.caller,
                outcome.amount,
            ),
        )
        database.execute(
            "INSERT INTO settlement (side, outcomes, closed, spent, late, responses, misdated)"
            " VALUES (?, 1, ?, ?, ?, ?, ?)"
            " ON CONFLICT (side) DO UPDATE SET outcomes = outcomes + 1, closed = closed + excluded.closed,"
            " spent = spent + excluded.spent, late = late + excluded.late, responses = responses + excluded.responses,"
            " misdated = misdated + excluded.misdated",
            (
                outcome.side,
                held[0] if held else 0,
                outcome.cost,
                outcome.cost if late else 0,
                outcome.response,
                outcome.misdated,
            ),
        )
        return True

    def _check_late(
        self,
        database: sqlite3.Connection,
        outcome: ReportedOutcome,
        sums: Sequence[str],
        cause: Cause,
        released_at: int,
    ) -> None:
        if cause == "returned":
            raise given_back(outcome, released_at)
        if self.ceiling is not None:
            room = self.ceiling.room(committed(database)[0]) + moved(database)
            if outcome.cost > room:
                raise no_room(outcome, outcome.cost, room)
            check_limits(database, self.peers, self.ceiling, outcome, sums, outcome.cost, 1)


def check_limits(
    database: sqlite3.Connection,
    peers: Peers,
    ceiling: Ceiling,
    outcome: ReportedOutcome,
    sums: Sequence[str],
    amount: int,
    count: int,
) -> None:
    """Raise :class:`Conflict` where a further limit has no room for more amount and count of a request."""
    elsewhere = peers.elsewhere(ceiling, sums)
    full = exceeded(ceiling.by_name, sums, read_usage(database, sums), elsewhere, amount, count)
    if full is not None:
        raise no_room(outcome, amount, full.amount, full.name)
