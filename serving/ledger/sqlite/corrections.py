"""Correcting outcomes, as a job of the writer: rows are added and none is changed."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from serving.ledger.records import Ceiling, Correction, Counted, ReportedOutcome
from serving.ledger.refusals import given_back, no_room, not_reported, raised
from serving.ledger.sqlite.authorizations import committed, moved
from serving.ledger.sqlite.peers import Peers
from serving.ledger.sqlite.settling import Settle, check_limits, corrected, is_repeat
from serving.ledger.sqlite.usage import add_usage, read_shares
from shadowprice.pacing.decision_log.records import CorrectionRow

CORRECTION = ", ".join(CorrectionRow._fields)


@dataclass(frozen=True)
class Correct:
    """:meth:`serving.ledger.store.Store.correct`."""

    corrections: Sequence[Correction]
    ceiling: Ceiling | None
    at: int
    now: int
    peers: Peers = field(default_factory=Peers)

    def __call__(self, database: sqlite3.Connection) -> Counted:
        """Book the corrections that are new."""
        accepted = sum(self._book(database, correction) for correction in self.corrections)
        return Counted(accepted, len(self.corrections) - accepted)

    def _book(self, database: sqlite3.Connection, correction: Correction) -> bool:
        """Return whether the correction was new."""
        outcome = correction.outcome
        if is_repeat(database, outcome):
            return False
        response, cost = self._standing(database, correction)
        more, dearer = outcome.response - response, outcome.cost - cost
        if (more > 0 or dearer > 0) and not correction.raises:
            raise raised(correction, response, cost)
        if dearer > 0 and not (correction.override or correction.replayed):
            _check_kept(database, outcome)
        sums = read_shares(database, [outcome.request_id]).get(outcome.request_id, [])
        # A late capture counts only while something is paid for it.
        counted = (outcome.cost > 0) - (cost > 0) if sums and _is_late(database, outcome) else 0
        if dearer > 0 and self.ceiling is not None and not correction.override:
            room = self.ceiling.room(committed(database)[0]) + moved(database)
            if dearer > room:
                raise no_room(outcome, dearer, room)
            check_limits(database, self.peers, self.ceiling, outcome, sums, dearer, max(counted, 0))
        add_usage(database, [(key, dearer, counted) for key in sums])
        database.execute(
            f"INSERT INTO correction ({CORRECTION}) VALUES ({', '.join('?' * len(CorrectionRow._fields))})",
            (
                outcome.source,
                outcome.event_id,
                outcome.request_id,
                outcome.side,
                correction.kind,
                outcome.response,
                outcome.cost,
                response,
                cost,
                correction.override,
                outcome.content,
                outcome.observed_at,
                self.at,
                outcome.misdated,
                outcome.caller,
                outcome.amount,
            ),
        )
        # The side has its row of sums: it has an outcome.
        database.execute(
            "UPDATE settlement SET spent = spent + ?, refunded = refunded + ?, responses = responses + ?,"
            f" withdrawn = withdrawn + ?, overridden = overridden + ?, {correction.kind} = {correction.kind} + 1"
            " WHERE side = ?",
            (
                max(dearer, 0),
                max(-dearer, 0),
                max(more, 0.0),
                max(-more, 0.0),
                max(dearer, 0) if correction.override else 0,
                outcome.side,
            ),
        )
        return True

    def _standing(self, database: sqlite3.Connection, correction: Correction) -> tuple[float, int]:
        outcome = correction.outcome
        newest = corrected(database, outcome.request_id)
        reported: tuple[float, int] | None = (
            newest[:2]
            if newest
            else database.execute(
                "SELECT response, cost FROM outcome WHERE request_id = ?", (outcome.request_id,)
            ).fetchone()
        )
        if reported is None:
            if not correction.override:
                raise not_reported(outcome)
            reported = 0.0, 0
            Settle([replace(outcome, response=0.0, cost=0, amount=None)], self.ceiling, self.at, self.now, self.peers)(
                database
            )
        return reported


def _check_kept(database: sqlite3.Connection, outcome: ReportedOutcome) -> None:
    """Raise :class:`Conflict` where the authorization was returned: its money may be another request's by now."""
    returned = database.execute(
        "SELECT released_at FROM release WHERE request_id = ? AND cause = 'returned'", (outcome.request_id,)
    ).fetchone()
    if returned is not None:
        raise given_back(outcome, *returned)


def _is_late(database: sqlite3.Connection, outcome: ReportedOutcome) -> bool:
    (late,) = database.execute("SELECT late FROM outcome WHERE request_id = ?", (outcome.request_id,)).fetchone()
    return bool(late)


def corrections_after(database: sqlite3.Connection, sequence: int, limit: int) -> list[CorrectionRow]:
    """The corrections with the next numbers."""
    query = f"SELECT {CORRECTION} FROM correction WHERE sequence > ? ORDER BY sequence LIMIT ?"
    rows = map(CorrectionRow._make, database.execute(query, (sequence, limit)))
    return [row._replace(override=bool(row.override), misdated=bool(row.misdated)) for row in rows]
