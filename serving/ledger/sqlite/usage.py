"""Sums of further limits in the sqlite file, and the sums that each authorization adds to."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence

import orjson

from serving.ledger.records import Owners
from serving.ledger.sound import sound_usage
from shadowprice.limits.usage import Usage


def read_usage(database: sqlite3.Connection, sums: Iterable[str]) -> dict[str, Usage]:
    """Return the sums that are kept; absent ones are zero. O(n log sums)."""
    wanted = list(dict.fromkeys(sums))
    if not wanted:
        return {}
    rows = database.execute(
        "SELECT name, amount, count FROM limit_usage WHERE name IN (SELECT value FROM json_each(?))",
        (orjson.dumps(wanted).decode(),),
    )
    return sound_usage({name: Usage(amount, count) for name, amount, count in rows})


def read_owners(database: sqlite3.Connection, begin: str, after: str, limit: int) -> Owners:
    """Return sums by the names of their owners, in order. O(limit + log sums)."""
    rows = database.execute(
        "SELECT name, amount, count FROM limit_usage WHERE name >= ?1 AND name < ?2 AND name > ?3"
        " AND (amount <> 0 OR count <> 0) ORDER BY name LIMIT ?4",
        (begin, begin[:-1] + chr(ord(begin[-1]) + 1), after, limit),
    ).fetchall()
    first = database.execute("SELECT decided_at FROM decision ORDER BY sequence LIMIT 1").fetchone()
    usage = {name[len(begin) :]: Usage(amount, count) for name, amount, count in rows}
    return Owners(usage, rows[-1][0] if len(rows) == limit else "", first[0] if first else None)


def add_usage(database: sqlite3.Connection, changes: Iterable[tuple[str, int, int]]) -> None:
    """Add amount and count to sums by name."""
    database.executemany(
        "INSERT INTO limit_usage (name, amount, count) VALUES (?, ?, ?)"
        " ON CONFLICT (name) DO UPDATE SET amount = amount + excluded.amount, count = count + excluded.count",
        changes,
    )


def note_shares(database: sqlite3.Connection, shares: Mapping[str, Sequence[str]]) -> None:
    """Note the sums that each new authorization adds to; those without any are left out."""
    database.executemany(
        "INSERT INTO limit_share (request_id, sums) VALUES (?, ?)",
        [(request_id, orjson.dumps(sums).decode()) for request_id, sums in shares.items() if sums],
    )


def read_shares(database: sqlite3.Connection, request_ids: Iterable[str]) -> dict[str, list[str]]:
    """Return the sums that authorizations add to; those that add to none are absent. O(n log rows)."""
    rows = database.execute(
        "SELECT request_id, sums FROM limit_share WHERE request_id IN (SELECT value FROM json_each(?))",
        (orjson.dumps(list(request_ids)).decode(),),
    )
    return {request_id: orjson.loads(sums) for request_id, sums in rows}
