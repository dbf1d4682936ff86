"""Authorize, settle, release and expire, each as a job of the writer: one savepoint in its transaction."""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import orjson

from serving.http.limits import MAX_SWEEP
from serving.ledger.records import (
    Answer,
    Cause,
    Ceiling,
    Counted,
    Entry,
    Known,
    Recorded,
    ReportedOutcome,
    Row,
    Turn,
    request_of,
)
from serving.ledger.refusals import captured, given_back, no_room, other_content, other_outcome, owner_conflict
from serving.ledger.sound import check_added
from serving.ledger.sqlite.database import keep_ledger_time
from serving.ledger.sqlite.peers import Peers
from serving.ledger.sqlite.rows import DECISION, find, values
from serving.ledger.sqlite.usage import add_usage, note_shares, read_shares, read_usage
from serving.ledger.traffic import QUARTER
from shadowprice.limits import Bound
from shadowprice.limits.usage import Left, Usage, exceeded, tightest
from shadowprice.pacing.decision_log.records import Decision


@dataclass(frozen=True)
class Authorize:
    """:meth:`serving.ledger.store.Store.authorize`."""

    calls: Sequence[Sequence[Row]]
    ceiling: Ceiling | None
    at: int
    now: int
    peers: Peers = field(default_factory=Peers)

    def __call__(self, database: sqlite3.Connection) -> list[Answer]:
        """Return the answer of each call, in order."""
        _expire(database, self.at, self.now)
        decided = find(database, [request_of(row) for call in self.calls for row in call])
        ceiling = lifted(self.ceiling, database)
        had = (0, 0) if ceiling is None else committed(database)
        left = None if ceiling is None else Left(ceiling.grantable(*had), ceiling.name)
        bounds = {} if ceiling is None else ceiling.by_name
        entries = [row for call in self.calls for row in call if isinstance(row, Entry)]
        usage = read_usage(database, (key for row in entries for key in _keys(row)))
        elsewhere = self.peers.elsewhere(ceiling, (key for row in entries for key in row.sums))
        answers: list[Answer] = []
        new: list[tuple[Decision, int, int]] = []
        shares: dict[str, tuple[str, ...]] = {}
        added: dict[str, Usage] = {}
        for call in self.calls:
            refused = owner_conflict(call, decided)
            if refused is not None:
                answers.append(refused)
                continue
            recorded: list[Recorded | None] = []
            for row in call:
                before = decided.get(request_of(row))
                if before is not None:
                    recorded.append(Recorded(before, repeat=True))
                elif isinstance(row, Known):
                    recorded.append(None)
                else:
                    turn, full = _turn(row, bounds, usage)
                    if full is None:
                        decision = row.at(None if left is None else tightest(left, bounds, row.sums, usage, elsewhere))
                    else:
                        decision = row.instead(turn.decision, full)
                    # A place is taken for good: no outcome and no expiry gives it back.
                    for key in turn.places:
                        usage[key] = usage.get(key, Usage()).plus(0, 1)
                        added[key] = added.get(key, Usage()).plus(0, 1)
                    for key in row.by_level:
                        name = f"{key}{decision.level}"
                        added[name] = added.get(name, Usage()).plus(0, 1)
                    held = decision.reserved
                    if held:
                        if left is not None:
                            left = left._replace(amount=left.amount - held)
                        shares[decision.request_id] = row.sums
                        for key in row.sums:
                            usage[key] = usage.get(key, Usage()).plus(held, 1)
                            added[key] = added.get(key, Usage()).plus(held, 1)
                    new.append((decision, held, self.now + row.ttl))
                    decided[decision.request_id] = decision
                    recorded.append(Recorded(decision, repeat=False))
            answers.append(recorded)
        _record(database, new)
        if ceiling is not None:
            check_added(had[0], sum(held for _, held, _ in new), committed(database)[0])
        note_shares(database, shares)
        add_usage(database, [(name, *change) for name, change in added.items()])
        return answers


def _keys(row: Entry) -> Iterator[str]:
    """Yield the sums that a decision may add to."""
    yield from row.sums
    for turn in row.turns:
        yield from turn.places


def _turn(row: Entry, bounds: Mapping[str, Bound], usage: Mapping[str, Usage]) -> tuple[Turn, Left | None]:
    """Return the first decision whose places are free, and the limit of the first place that is not."""
    full = None
    for turn in row.turns if row.places else ():
        over = exceeded(bounds, turn.places, usage, {}, 0, 1)
        if over is None:
            return turn, full
        full = full or over
    return Turn(row.wanted), None


def _record(database: sqlite3.Connection, new: Sequence[tuple[Decision, int, int]]) -> None:
    """Record decisions, each with the amount that it holds and the end of its authorization."""
    made = [decision for decision, _, _ in new]
    counts = Counter(map(attrgetter("side", "level", "reason", "incentive", "most_units"), made))
    database.executemany(
        f"INSERT INTO decision ({DECISION}) VALUES ({', '.join('?' for _ in Decision._fields)})",
        [values(decision) for decision in made],
    )
    database.executemany(
        "INSERT INTO tally (side, level, reason, decisions, authorized, reserved) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (side, level, reason) DO UPDATE SET decisions = decisions + excluded.decisions,"
        " authorized = authorized + excluded.authorized, reserved = reserved + excluded.reserved",
        # Each level has one incentive, so the sums of a call are few.
        [(*key, count, each * count, each * most * count) for (*key, each, most), count in counts.items()],
    )
    requests = Counter(map(attrgetter("decided_at", "side"), made))
    database.executemany(
        "INSERT INTO traffic (quarter, side, requests) VALUES (?, ?, ?)"
        " ON CONFLICT (quarter, side) DO UPDATE SET requests = requests + excluded.requests",
        [(at // QUARTER, side, count) for (at, side), count in requests.items()],
    )
    database.executemany(
        "INSERT INTO hold (request_id, side, reserved, expires_at) VALUES (?, ?, ?, ?)",
        [(decision.request_id, decision.side, held, expires_at) for decision, held, expires_at in new if held],
    )


def committed(database: sqlite3.Connection) -> tuple[int, int]:
    """Minor units spent and not taken back, or reserved for open authorizations; and those captured late."""
    (reserved,) = database.execute("SELECT COALESCE(SUM(reserved), 0) FROM tally").fetchone()
    spent, late = database.execute(
        "SELECT COALESCE(SUM(spent - refunded - closed), 0), COALESCE(SUM(late), 0) FROM settlement"
    ).fetchone()
    return int(reserved + spent), int(late)


def moved(database: sqlite3.Connection) -> int:
    """Minor units that moves added to the limit, less those that they took."""
    (amount,) = database.execute("SELECT received - given FROM moved").fetchone()
    return int(amount)


def lifted(ceiling: Ceiling | None, database: sqlite3.Connection) -> Ceiling | None:
    """Return a ceiling with the limit that moves have left."""
    return None if ceiling is None else ceiling._replace(limit=ceiling.limit + moved(database))


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
        _close(database, due, (outcome.request_id, outcome.late, self.now), "expired", self.at)
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


@dataclass(frozen=True)
class Release:
    """:meth:`serving.ledger.store.Store.release`."""

    request_ids: Sequence[str]
    at: int

    def __call__(self, database: sqlite3.Connection) -> Counted:
        """Release the open authorizations."""
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
    now: int

    def __call__(self, database: sqlite3.Connection) -> int:
        """Release expired authorizations, and keep the ledger time."""
        keep_ledger_time(database, self.now)
        return _expire(database, self.at, self.now)


def _expire(database: sqlite3.Connection, at: int, now: int) -> int:
    due = f"request_id IN (SELECT request_id FROM hold WHERE expires_at <= ? ORDER BY expires_at LIMIT {MAX_SWEEP})"
    return _close(database, due, (now,), "expired", at)


def _close(database: sqlite3.Connection, which: str, parameters: tuple[object, ...], cause: Cause, at: int) -> int:
    rows = database.execute(
        f"DELETE FROM hold WHERE {which} RETURNING request_id, side, reserved", parameters
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
    held = {request_id: reserved for request_id, _, reserved in rows}
    shares = read_shares(database, held)
    add_usage(database, [(key, -held[name], -1) for name, sums in shares.items() for key in sums])
    return len(rows)
