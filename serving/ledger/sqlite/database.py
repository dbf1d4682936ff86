"""The ledger's sqlite file: its tables, and how it is opened."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from pathlib import Path

from shadowprice.campaign import Campaign
from shadowprice.errors import Conflict, Unavailable

SCHEMA_VERSION = "3"
TABLES = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
-- One row per request, written once. decided_at in microseconds since 1970 (UTC).
CREATE TABLE decision (
    sequence INTEGER PRIMARY KEY,
    request_id TEXT NOT NULL UNIQUE,
    account_id TEXT NOT NULL,
    side TEXT NOT NULL,
    level INTEGER NOT NULL,
    incentive INTEGER NOT NULL CHECK (incentive >= 0),
    response REAL NOT NULL,
    expected_cost REAL NOT NULL,
    propensity REAL NOT NULL,
    propensities TEXT NOT NULL DEFAULT '[]',
    reason TEXT NOT NULL,
    model_version TEXT NOT NULL,
    price_version INTEGER NOT NULL,
    features_at INTEGER,
    decided_at INTEGER NOT NULL,
    most_units INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE INDEX decision_time ON decision (decided_at);
-- Promises of money that are open, with the most that each can cost; expires_at in microseconds since 1970 (UTC).
CREATE TABLE promise (
    request_id TEXT PRIMARY KEY REFERENCES decision (request_id),
    side TEXT NOT NULL,
    reserved INTEGER NOT NULL CHECK (reserved > 0),
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX promise_expiry ON promise (expires_at);
-- Promises that were released without an outcome, written once.
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
    UNIQUE (source, event_id)
) STRICT;
-- Sums over the tables above, kept in the same transactions; authorised is what was promised at face value, reserved
-- the most that it could cost, closed that of promises that are not open any more, expired and returned that of those
-- released, late what was paid on those all the same.
CREATE TABLE tally (
    side TEXT NOT NULL,
    level INTEGER NOT NULL,
    reason TEXT NOT NULL,
    decisions INTEGER NOT NULL,
    authorised INTEGER NOT NULL,
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
    responses REAL NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
"""
UPGRADES = {
    "2": """
ALTER TABLE decision ADD COLUMN most_units INTEGER NOT NULL DEFAULT 1;
ALTER TABLE promise RENAME COLUMN incentive TO reserved;
ALTER TABLE release RENAME COLUMN incentive TO reserved;
ALTER TABLE tally ADD COLUMN reserved INTEGER NOT NULL DEFAULT 0;
UPDATE tally SET reserved = authorised;
UPDATE about SET value = '3' WHERE key = 'schema';
"""
}
"""Schema → what makes it the next, in one transaction. Before 3 a promise had its face value reserved."""
BUSY_SECONDS = 5.0
PAGE_BYTES = 1024
"""Of a new file. A commit writes every page that it touches: of a lone decision one in each of six trees."""
LOG_BYTES = 4 * 2**20
"""Length of the write-ahead log at which it is copied into the file."""


def create(path: Path, campaign: Campaign) -> None:
    """Make the tables if there are none, and make sure that the file belongs to the campaign.

    Tables of a schema in :data:`UPGRADES` are brought up to this one, for good; it reads each row once.

    Raises:
        Conflict: the file belongs to another campaign or any other version of the tables; it stays as it is.
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
                while (found := _about(database, key)) in upgrades:
                    database.executescript(f"BEGIN IMMEDIATE;{upgrades[found]}COMMIT;")
                if found != value:
                    raise Conflict(f"ledger {path}: its {key} is {found!r}, not {value!r}; use another file")
        finally:
            database.close()
    except sqlite3.Error as error:
        raise Unavailable(f"ledger {path}: {error}") from error


def _about(database: sqlite3.Connection, key: str) -> str:
    (value,) = database.execute("SELECT value FROM about WHERE key = ?", (key,)).fetchone()
    return str(value)


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


def claim(path: Path) -> int:
    """Take the file for this process alone until it ends; two ledgers would each spend the same money.

    Returns a descriptor to keep open.

    Raises:
        Conflict: another process has it.
        Unavailable: there is no writing beside it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise Unavailable(f"ledger {path}: {error}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise Conflict(f"ledger {path}: another process is writing to it") from None
    return descriptor
