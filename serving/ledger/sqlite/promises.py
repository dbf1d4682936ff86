"""What happens to promises, each as a job of the writer: one savepoint in its transaction."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from serving.ledger.refusals import captured, other_content, other_outcome, other_owner
from serving.ledger.sqlite.rows import DECISION, find, values
from serving.ledger.store import SWEEP, Cause, Counted, Decision, Entry, Outcome, Recorded


@dataclass(frozen=True)
class Authorise:
    """:meth:`serving.ledger.store.Store.authorise`."""

    entries: Sequence[Entry]
    ceiling: int | None
    at: int

    def __call__(self, database: sqlite3.Connection) -> list[Recorded]:
        """What stands for each entry, in order."""
        Expire(self.at)(database)
        known = find(database, [entry.wanted.request_id for entry in self.entries])
        left = None if self.ceiling is None else self.ceiling - _committed(database)
        answers: list[Recorded] = []
        new: list[tuple[Decision, int]] = []
        for index, entry in enumerate(self.entries):
            wanted = entry.wanted
            before = known.get(wanted.request_id)
            if before is None:
                decision = entry.at(left)
                if left is not None:
                    left -= decision.reserved
                new.append((decision, entry.expires_at))
                known[wanted.request_id] = decision
            else:
                if (before.account_id, before.side) != (wanted.account_id, wanted.side):
                    raise other_owner(wanted, index)
                decision = before
            answers.append(Recorded(decision, repeat=before is not None))
        _record(database, new)
        return answers


def _record(database: sqlite3.Connection, new: Sequence[tuple[Decision, int]]) -> None:
    counts = Counter((each.side, each.level, each.reason, each.incentive, each.reserved) for each, _ in new)
    database.executemany(
        f"INSERT INTO decision ({DECISION}) VALUES ({', '.join('?' for _ in Decision._fields)})",
        [values(decision) for decision, _ in new],
    )
    database.executemany(
        "INSERT INTO tally (side, level, reason, decisions, authorised, reserved) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (side, level, reason) DO UPDATE SET decisions = decisions + excluded.decisions,"
        " authorised = authorised + excluded.authorised, reserved = reserved + excluded.reserved",
        # Each level has one incentive, so the sums of a call are few.
        [(*key, count, incentive * count, reserved * count) for (*key, incentive, reserved), count in counts.items()],
    )
    database.executemany(
        "INSERT INTO promise (request_id, side, reserved, expires_at) VALUES (?, ?, ?, ?)",
        [
            (decision.request_id, decision.side, decision.reserved, expires_at)
            for decision, expires_at in new
            if decision.reserved
        ],
    )


def _committed(database: sqlite3.Connection) -> int:
    """Minor units spent, or reserved for open promises."""
    (reserved,) = database.execute("SELECT COALESCE(SUM(reserved), 0) FROM tally").fetchone()
    closed, spent = database.execute(
        "SELECT COALESCE(SUM(closed), 0), COALESCE(SUM(spent), 0) FROM settlement"
    ).fetchone()
    return int(reserved - closed + spent)


@dataclass(frozen=True)
class Settle:
    """:meth:`serving.ledger.store.Store.settle`."""

    outcomes: Sequence[Outcome]
    at: int

    def __call__(self, database: sqlite3.Connection) -> Counted:
        """Book the outcomes that are new."""
        accepted = sum(self._book(database, outcome) for outcome in self.outcomes)
        return Counted(accepted, len(self.outcomes) - accepted)

    def _book(self, database: sqlite3.Connection, outcome: Outcome) -> bool:
        """Whether the outcome was new."""
        same = database.execute(
            "SELECT content FROM outcome WHERE source = ? AND event_id = ?", (outcome.source, outcome.event_id)
        ).fetchone()
        if same is not None:
            if same[0] != outcome.content:
                raise other_content(outcome)
            return False
        settled = database.execute(
            "SELECT response, cost FROM outcome WHERE request_id = ?", (outcome.request_id,)
        ).fetchone()
        if settled is not None:
            if settled != (outcome.response, outcome.cost):
                raise other_outcome(outcome, *settled)
            return False
        # Whether money is late is a matter of the clock, and not of when the sweep last came by.
        due = "request_id = ? AND expires_at <= ?"
        _close(database, due, (outcome.request_id, self.at), "expired", self.at)
        promised = database.execute(
            "DELETE FROM promise WHERE request_id = ? RETURNING reserved", (outcome.request_id,)
        ).fetchone()
        released = database.execute("SELECT 1 FROM release WHERE request_id = ?", (outcome.request_id,)).fetchone()
        late = released is not None
        database.execute(
            "INSERT INTO outcome (source, event_id, request_id, side, response, cost, late, content, observed_at,"
            " recorded_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
            ),
        )
        database.execute(
            "INSERT INTO settlement (side, outcomes, closed, spent, late, responses) VALUES (?, 1, ?, ?, ?, ?)"
            " ON CONFLICT (side) DO UPDATE SET outcomes = outcomes + 1, closed = closed + excluded.closed,"
            " spent = spent + excluded.spent, late = late + excluded.late, responses = responses + excluded.responses",
            (
                outcome.side,
                promised[0] if promised else 0,
                outcome.cost,
                outcome.cost if late else 0,
                outcome.response,
            ),
        )
        return True


@dataclass(frozen=True)
class Release:
    """:meth:`serving.ledger.store.Store.release`."""

    request_ids: Sequence[str]
    at: int

    def __call__(self, database: sqlite3.Connection) -> Counted:
        """Release the promises that are open."""
        text = orjson.dumps(list(self.request_ids)).decode()
        settled = database.execute(
            "SELECT request_id FROM outcome WHERE request_id IN (SELECT value FROM json_each(?))", (text,)
        ).fetchone()
        if settled is not None:
            raise captured(settled[0])
        freed = _close(database, "request_id IN (SELECT value FROM json_each(?))", (text,), "returned", self.at)
        return Counted(freed, len(self.request_ids) - freed)


@dataclass(frozen=True)
class Expire:
    """:meth:`serving.ledger.store.Store.expire`."""

    at: int

    def __call__(self, database: sqlite3.Connection) -> int:
        """Release what is due."""
        due = f"request_id IN (SELECT request_id FROM promise WHERE expires_at <= ? ORDER BY expires_at LIMIT {SWEEP})"
        return _close(database, due, (self.at,), "expired", self.at)


def _close(database: sqlite3.Connection, which: str, parameters: tuple[object, ...], cause: Cause, at: int) -> int:
    rows = database.execute(
        f"DELETE FROM promise WHERE {which} RETURNING request_id, side, reserved", parameters
    ).fetchall()
    if not rows:
        return 0
    database.executemany(
        "INSERT INTO release (request_id, side, cause, reserved, released_at) VALUES (?, ?, ?, ?, ?)",
        [(request_id, side, cause, reserved, at) for request_id, side, reserved in rows],
    )
    database.executemany(
        f"INSERT INTO settlement (side, closed, {cause}) VALUES (?1, ?2, ?2)"
        f" ON CONFLICT (side) DO UPDATE SET closed = closed + ?2, {cause} = {cause} + ?2",
        [(side, reserved) for _, side, reserved in rows],
    )
    return len(rows)
