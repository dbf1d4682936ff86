"""Accounts in a ledger's sqlite file: their rows, and the replacement of identifiers while no ledger has the file."""

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson

from operations.erasure.record import Erasure, Erasures
from operations.erasure.source import Source, word
from serving.ledger.sqlite.claim import Claim
from serving.ledger.sqlite.database import open_for_reading, open_for_writing
from shadowprice.errors import Unavailable
from shadowprice.limits.sums import owner_of, renamed
from shadowprice.pacing.decision_log.basis import erased

NOTED, BEGUN = "erased_until", "erasing_until"
"""Keys of the time of the newest erasure in the file, and of one whose traces may be left in its pages."""
OWNERS = ("account_id", "partner_id")
"""Columns of a decision that name accounts."""


def is_ledger(path: Path, campaign: str) -> bool:
    """Return whether a file is a ledger of a campaign."""
    with path.open("rb") as file:
        if file.read(16) != b"SQLite format 3\0":
            return False
    try:
        with closing(open_for_reading(path)) as database:
            row = database.execute("SELECT value FROM about WHERE key = 'campaign'").fetchone()
    except sqlite3.Error:
        return False
    return bool(row == (campaign,))


class SqliteAccounts(Source):
    """A ledger's file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path = path

    def rows(self, account: str, requests: set[str]) -> Iterator[dict[str, Any]]:
        """Yield the decisions of the account, what was recorded of them, and its sums of limits.

        ``requests`` gets the requests.
        """
        with closing(open_for_reading(self._path)) as database:
            database.row_factory = sqlite3.Row
            decisions = [dict(row) for row in database.execute(*_asked_by({account}))]
            requests |= {row["request_id"] for row in decisions if row["account_id"] == account}
            yield from ({"table": "decision", **row} for row in decisions)
            own = orjson.dumps([row["request_id"] for row in decisions]).decode()
            for table, columns in _columns(database).items():
                if table != "decision" and "request_id" in columns:
                    query = f"SELECT * FROM {table} WHERE request_id IN (SELECT value FROM json_each(?))"
                    yield from ({"table": table, **dict(row)} for row in database.execute(query, (own,)))
            for row in _sums(database):
                if owner_of(row["name"]) == account:
                    yield {"table": "limit_usage", **dict(row)}

    def erase(self, erasures: Erasures) -> int:
        """Make the erasures that the file does not note, in one transaction; then write the file anew.

        Pages of the file keep traces of earlier rows, so it is written anew: that takes its size of disk.

        Raises:
            Conflict: another process has the file, or a key is gone.
            Unavailable: the file cannot be written.
        """
        try:
            with closing(Claim(self._path)), closing(open_for_writing(self._path)) as database:
                noted = database.execute("SELECT value FROM about WHERE key = ?", (NOTED,)).fetchone()
                first = database.execute("SELECT decided_at FROM decision ORDER BY sequence LIMIT 1").fetchone()
                due = erasures.after("" if noted is None else noted[0], None if first is None else first[0])
                if not due:
                    return 0
                known = (name for (name,) in database.execute(_KNOWN))
                names = erasures.match({*known, *(owner_of(name) for (name, *_) in _sums(database))}, due)
                rows = _rename(database, names, due[-1].at) if names else 0
                if database.execute("SELECT 1 FROM about WHERE key = ?", (BEGUN,)).fetchone():
                    database.execute("VACUUM")
                    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                database.execute("BEGIN IMMEDIATE")
                database.execute("INSERT OR REPLACE INTO about (key, value) VALUES (?, ?)", (NOTED, due[-1].at))
                database.execute("DELETE FROM about WHERE key = ?", (BEGUN,))
                database.execute("COMMIT")
                return rows
        except sqlite3.Error as error:
            raise Unavailable(f"ledger {self._path}: {error}; repeat the command") from error

    def mentions(self, account: str) -> int:
        """Count the rows whose texts, such as ids of requests and events, contain the identifier."""
        pattern = re.compile(word(account))
        with closing(open_for_reading(self._path)) as database:
            database.create_function("mentions", 1, lambda text: bool(pattern.search(str(text))), deterministic=True)
            counts = (
                database.execute(f"SELECT COUNT(*) FROM {table} WHERE {' OR '.join(f'mentions({c})' for c in columns)}")
                for table, columns in _columns(database, "TEXT").items()
                if columns
            )
            return sum(int(count) for ((count,),) in counts)


_KNOWN = " UNION ".join(f"SELECT {name} FROM decision" for name in OWNERS)


def _rename(database: sqlite3.Connection, names: Mapping[str, Erasure], until: str) -> int:
    new = {name: erasure.pseudonym for name, erasure in names.items()}
    database.execute("PRAGMA temp_store = MEMORY")
    database.execute("BEGIN IMMEDIATE")
    query, parameters = _asked_by(set(names))
    own = orjson.dumps([row[0] for row in database.execute(query.replace("*", "request_id", 1), parameters)]).decode()
    shares = database.execute(
        "SELECT request_id, sums FROM limit_share WHERE request_id IN (SELECT value FROM json_each(?))", (own,)
    ).fetchall()
    database.executemany(
        "UPDATE limit_share SET sums = ? WHERE request_id = ?",
        [(orjson.dumps([renamed(load, new) for load in orjson.loads(sums)]).decode(), key) for key, sums in shares],
    )
    for name, amount, count in [row for row in _sums(database) if owner_of(row[0]) in new]:
        database.execute("DELETE FROM limit_usage WHERE name = ?", (name,))
        database.execute(
            "INSERT INTO limit_usage (name, amount, count) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE"
            " SET amount = amount + excluded.amount, count = count + excluded.count",
            (renamed(name, new), amount, count),
        )
    salted = database.execute(query.replace("*", "request_id, basis, account_id, partner_id", 1), parameters).fetchall()
    database.executemany(
        "UPDATE decision SET basis = ? WHERE request_id = ?", [(erased(*basis), key) for key, *basis in salted]
    )
    database.execute("CREATE TEMP TABLE erased (before TEXT PRIMARY KEY, after TEXT)")
    database.executemany("INSERT INTO erased VALUES (?, ?)", new.items())
    rows = sum(
        database.execute(
            f"UPDATE decision SET {column} = (SELECT after FROM erased WHERE before = {column})"
            f" WHERE {column} IN (SELECT before FROM erased)"
        ).rowcount
        for column in OWNERS
    )
    database.execute("INSERT OR REPLACE INTO about (key, value) VALUES (?, ?)", (BEGUN, until))
    database.execute("COMMIT")
    return rows


def _asked_by(names: set[str]) -> tuple[str, tuple[str, ...]]:
    """Return the query of the decisions that name one of some accounts."""
    where = " OR ".join(f"{name} IN (SELECT value FROM json_each(?1))" for name in OWNERS)
    return f"SELECT * FROM decision WHERE {where}", (orjson.dumps(sorted(names)).decode(),)


def _columns(database: sqlite3.Connection, kind: str = "") -> dict[str, list[str]]:
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    return {
        table: [name for _, name, type_, *_ in database.execute(f"PRAGMA table_info({table})") if kind in ("", type_)]
        for table in tables
        if not table.startswith("sqlite_")
    }


def _sums(database: sqlite3.Connection) -> list[Any]:
    return database.execute("SELECT name, amount, count FROM limit_usage").fetchall()
