"""Authorize, settle, release and expire, each as a job of the writer: one savepoint in its transaction."""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import orjson

from serving.http.limits import MAX_SWEEP
from serving.ledger.records import Answer, Cause, Ceiling, Counted, Entry, Known, Recorded, Row, Turn, request_of
from serving.ledger.refusals import captured, owner_conflict
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
        freed = close_holds(database, "request_id IN (SELECT value FROM json_each(?))", (text,), "returned", self.at)
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
    return close_holds(database, due, (now,), "expired", at)


def close_holds(database: sqlite3.Connection, which: str, parameters: tuple[object, ...], cause: Cause, at: int) -> int:
    """Release the holds that a condition chooses, and return their number."""
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
