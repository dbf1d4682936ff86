"""The ledger's sqlite file: its tables, and how it is opened."""

import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from serving.ledger.clock import microseconds
from serving.ledger.seen import EPOCH, Seen
from serving.ledger.terms import check_terms, noted_terms
from shadowprice.campaign import Campaign
from shadowprice.errors import Conflict, Unavailable
from shadowprice.pacing.decision_log.records import REQUIRED, Column, Decision, columns

_TYPES = {str: "TEXT", int: "INTEGER", float: "REAL", bool: "INTEGER", tuple: "TEXT"}


def definition(column: Column) -> str:
    """Return the SQL definition of a field's column."""
    parts = [column.name, _TYPES[column.type], *([] if column.optional else ["NOT NULL"])]
    if column.field.sql:
        parts.append(column.field.sql)
    if column.earlier is not REQUIRED:
        parts.append("DEFAULT " + (f"'{column.earlier}'" if column.type is str else str(column.earlier)))
    return " ".join(parts)


def decision_columns(record: type) -> str:
    """Return the column definitions of the table of decisions, one in a line."""
    return ",\n    ".join(map(definition, columns(record)))


MOVES = """
-- Moves of a portfolio, one row for each half that this ledger keeps; see serving.ledger.moves.
CREATE TABLE move (
    sequence INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    half TEXT NOT NULL,
    state TEXT NOT NULL,
    amount INTEGER NOT NULL CHECK (amount > 0),
    content TEXT NOT NULL,
    recorded_at INTEGER NOT NULL
) STRICT;
-- Sums over them, in one row: what was taken off the limit, and what was added to it.
CREATE TABLE moved (given INTEGER NOT NULL, received INTEGER NOT NULL) STRICT;
INSERT INTO moved VALUES (0, 0);
"""
TABLES = f"""
-- ledger_time is that of the last sweep; see serving.ledger.clock.
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
-- One row per request, written once. decided_at in microseconds since 1970 (UTC).
CREATE TABLE decision (
    sequence INTEGER PRIMARY KEY,
    {decision_columns(Decision)}
) STRICT;
-- Open authorizations, with the most that each can cost; expires_at is ledger time.
CREATE TABLE hold (
    request_id TEXT PRIMARY KEY REFERENCES decision (request_id),
    side TEXT NOT NULL,
    reserved INTEGER NOT NULL CHECK (reserved > 0),
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX hold_expiry ON hold (expires_at);
-- Authorizations that were released without an outcome, written once.
CREATE TABLE release (
    request_id TEXT PRIMARY KEY REFERENCES decision (request_id),
    side TEXT NOT NULL,
    cause TEXT NOT NULL,
    reserved INTEGER NOT NULL,
    released_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- One row per settled request, written once; content is the data of the event as JSON.
CREATE TABLE outcome (
    sequence INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    event_id TEXT NOT NULL,
    request_id TEXT NOT NULL UNIQUE REFERENCES decision (request_id),
    side TEXT NOT NULL,
    response REAL NOT NULL CHECK (response >= 0),
    cost INTEGER NOT NULL CHECK (cost >= 0),
    late INTEGER NOT NULL,
    content TEXT NOT NULL,
    observed_at INTEGER NOT NULL,
    recorded_at INTEGER NOT NULL,
    misdated INTEGER NOT NULL DEFAULT 0,
    caller TEXT NOT NULL DEFAULT '',
    amount INTEGER CHECK (amount >= 0),
    UNIQUE (source, event_id)
) STRICT;
-- Sums over the tables above, kept in the same transactions; authorized is the amount at face value, reserved
-- the most that it could cost, closed that of authorizations that are not open any more, expired and returned that of
-- those released, late what was paid on those all the same, refunded
-- and withdrawn what spent and responses were lowered by; they only grow, as those do.
CREATE TABLE tally (
    side TEXT NOT NULL,
    level INTEGER NOT NULL,
    reason TEXT NOT NULL,
    decisions INTEGER NOT NULL,
    authorized INTEGER NOT NULL,
    reserved INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (side, level, reason)
) STRICT, WITHOUT ROWID;
CREATE TABLE settlement (
    side TEXT PRIMARY KEY,
    outcomes INTEGER NOT NULL DEFAULT 0,
    closed INTEGER NOT NULL DEFAULT 0,
    expired INTEGER NOT NULL DEFAULT 0,
    returned INTEGER NOT NULL DEFAULT 0,
    spent INTEGER NOT NULL DEFAULT 0,
    late INTEGER NOT NULL DEFAULT 0,
    responses REAL NOT NULL DEFAULT 0,
    misdated INTEGER NOT NULL DEFAULT 0,
    refunded INTEGER NOT NULL DEFAULT 0,
    withdrawn REAL NOT NULL DEFAULT 0,
    overridden INTEGER NOT NULL DEFAULT 0,
    reversal INTEGER NOT NULL DEFAULT 0,
    refund INTEGER NOT NULL DEFAULT 0,
    clawback INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
-- One row per correction, written once: the values of the request from then on, and those until then.
CREATE TABLE correction (
    sequence INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    event_id TEXT NOT NULL,
    request_id TEXT NOT NULL REFERENCES outcome (request_id),
    side TEXT NOT NULL,
    kind TEXT NOT NULL,
    response REAL NOT NULL CHECK (response >= 0),
    cost INTEGER NOT NULL CHECK (cost >= 0),
    previous_response REAL NOT NULL,
    previous_cost INTEGER NOT NULL,
    override INTEGER NOT NULL,
    content TEXT NOT NULL,
    observed_at INTEGER NOT NULL,
    recorded_at INTEGER NOT NULL,
    misdated INTEGER NOT NULL,
    caller TEXT NOT NULL DEFAULT '',
    amount INTEGER CHECK (amount >= 0),
    UNIQUE (source, event_id)
) STRICT;
CREATE INDEX correction_request ON correction (request_id);
-- Requests decided in a quarter of an hour; quarters are numbered from 1970 (UTC).
CREATE TABLE traffic (
    quarter INTEGER NOT NULL,
    side TEXT NOT NULL,
    requests INTEGER NOT NULL,
    PRIMARY KEY (quarter, side)
) STRICT, WITHOUT ROWID;
-- Sums of further limits: amount of open authorizations and net spend, count of those open or captured. A sum is named
-- by its limit, period and account or partner.
CREATE TABLE limit_usage (
    name TEXT PRIMARY KEY,
    amount INTEGER NOT NULL,
    count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- Sums that an authorization adds to, as JSON, written once; those that add to none have no row.
CREATE TABLE limit_share (
    request_id TEXT PRIMARY KEY REFERENCES decision (request_id),
    sums TEXT NOT NULL
) STRICT, WITHOUT ROWID;
{MOVES}"""
UPGRADES = {
    "10": """
ALTER TABLE promise RENAME TO hold;
DROP INDEX promise_expiry;
CREATE INDEX hold_expiry ON hold (expires_at);
ALTER TABLE tally RENAME COLUMN authorised TO authorized;
""",
    "11": f"""
ALTER TABLE outcome ADD COLUMN amount INTEGER CHECK (amount >= 0);
ALTER TABLE correction ADD COLUMN amount INTEGER CHECK (amount >= 0);
ALTER TABLE decision ADD COLUMN basis TEXT NOT NULL DEFAULT '';
{MOVES}""",
}
"""Schema → SQL that makes it the next, in one transaction and for good."""
SCHEMA_VERSION = str(max(map(int, UPGRADES)) + 1)
BUSY_SECONDS = 5.0
PAGE_BYTES = 1024
"""Page size of a new file. A commit writes every page that it touches: for a lone decision one in each of six trees."""
LOG_BYTES = 4 * 2**20
"""Length of the write-ahead log at which it is copied into the file."""


def create(path: Path, campaign: Campaign) -> int:
    """Make the tables if there are none, and make sure that the file belongs to the campaign.

    Returns the ledger time of the file; that of a new one is the wall clock's.

    Tables of a schema in :data:`UPGRADES` are brought up to this one.

    Raises:
        Conflict: the file belongs to another campaign or any other version of the tables, or its decisions have
            other sides or levels; it stays as it is.
        Unavailable: the file cannot be opened or is not a database.
    """
    try:
        database = open_for_writing(path)
        try:
            about = database.execute("SELECT 1 FROM sqlite_schema WHERE name = 'about'").fetchone()
            if about is None:
                database.executescript(f"BEGIN IMMEDIATE;{TABLES}COMMIT;")
            for key, value, upgrades in (("campaign", campaign.name, {}), ("schema", SCHEMA_VERSION, UPGRADES)):
                database.execute("INSERT OR IGNORE INTO about (key, value) VALUES (?, ?)", (key, value))
                while (stored := _about(database, key)) in upgrades:
                    number = f"UPDATE about SET value = '{int(stored) + 1}' WHERE key = 'schema';"
                    database.executescript(f"BEGIN IMMEDIATE;{upgrades[stored]}{number}COMMIT;")
                if stored != value:
                    raise Conflict(f"ledger {path}: its {key} is {stored!r}, not {value!r}; use another file")
            _note_terms(database, campaign)
            database.execute("INSERT OR IGNORE INTO about (key, value) VALUES (?, ?)", (EPOCH, uuid4().hex))
            start = microseconds(datetime.now(UTC))
            database.execute("INSERT OR IGNORE INTO about (key, value) VALUES ('ledger_time', ?)", (start,))
            return int(_about(database, "ledger_time"))
        finally:
            database.close()
    except sqlite3.Error as error:
        raise Unavailable(f"ledger {path}: {error}") from error


def _note_terms(database: sqlite3.Connection, campaign: Campaign) -> None:
    noted = database.execute("SELECT value FROM about WHERE key = 'terms'").fetchone()
    decided = database.execute("SELECT DISTINCT side, level FROM tally").fetchall()
    check_terms(campaign, None if noted is None else str(noted[0]), decided)
    database.execute("INSERT OR REPLACE INTO about (key, value) VALUES ('terms', ?)", (noted_terms(campaign),))


def _about(database: sqlite3.Connection, key: str) -> str:
    (value,) = database.execute("SELECT value FROM about WHERE key = ?", (key,)).fetchone()
    return str(value)


def read_seen(database: sqlite3.Connection) -> Seen:
    """Return the random id of the file and its numbers of records, which are never deleted. O(log rows)."""
    counts = (
        database.execute(f"SELECT coalesce(max(sequence), 0) FROM {table}").fetchone()[0]
        for table in ("decision", "outcome", "correction", "move")
    )
    return Seen(_about(database, EPOCH), *counts)


def mark_copy(database: sqlite3.Connection) -> None:
    """Note in a copy that the ledger may have gone on without it."""
    database.execute("INSERT OR REPLACE INTO about (key, value) VALUES ('copied', '')")


def is_copy(database: sqlite3.Connection) -> bool:
    """Return whether a backup has written the file, and no ledger has used it."""
    return database.execute("SELECT 1 FROM about WHERE key = 'copied'").fetchone() is not None


def adopt(database: sqlite3.Connection) -> None:
    """Note that a ledger uses the copy."""
    database.execute("DELETE FROM about WHERE key = 'copied'")


def keep_ledger_time(database: sqlite3.Connection, now: int) -> None:
    """Note the ledger time from which the next process goes on."""
    database.execute("UPDATE about SET value = ? WHERE key = 'ledger_time'", (now,))


def open_for_writing(path: Path) -> sqlite3.Connection:
    """The connection of the one writer: write-ahead log, every commit on disk before it returns.

    Transactions are begun by hand. A file that is there keeps the size of its pages.
    """
    database = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    database.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    (page,) = database.execute("PRAGMA page_size").fetchone()
    database.execute(f"PRAGMA wal_autocheckpoint = {LOG_BYTES // page}")
    database.execute("PRAGMA foreign_keys = ON")
    return database


def open_for_reading(path: Path) -> sqlite3.Connection:
    """A connection that cannot write and does not hold up the writer. Transactions are begun by hand."""
    database = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    database.execute("PRAGMA query_only = ON")
    return database
