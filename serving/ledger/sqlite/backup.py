"""``python -m serving.ledger.sqlite.backup``: copy the ledger database while the ledger writes, and audit the copy.

A copy of the file alone is no backup: commits of the last moments are in the write-ahead log beside it.
SQLite's online backup, all pages in one step, reads one moment of both and holds up no writer.
"""

import os
import sqlite3
import sys
import uuid
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from serving.ledger.sqlite.database import SCHEMA_VERSION, mark_copy, open_for_reading
from serving.ledger.traffic import QUARTER
from shadowprice.command.options import main_of
from shadowprice.errors import Conflict, InvalidInput, NotFound, Unavailable

TALLY = """
SELECT side, level, reason, COUNT(*), SUM(incentive), SUM(incentive * most_units)
FROM decision GROUP BY side, level, reason
"""
SETTLED = """
SELECT side, SUM(outcomes), SUM(spent), SUM(late), SUM(misdated), SUM(refunded), SUM(overridden),
    SUM(kind = 'reversal'), SUM(kind = 'refund'), SUM(kind = 'clawback')
FROM (
    SELECT side, 1 AS outcomes, cost AS spent, cost * late AS late, misdated, 0 AS refunded, 0 AS overridden, '' AS kind
    FROM outcome
    UNION ALL
    SELECT side, 0, MAX(cost - previous_cost, 0), 0, 0, MAX(previous_cost - cost, 0),
        override * MAX(cost - previous_cost, 0), kind
    FROM correction
) GROUP BY side
"""
CHAINED = """
SELECT 1 FROM (
    SELECT c.previous_response, c.previous_cost,
        COALESCE(LAG(c.response) OVER earlier, o.response) AS response,
        COALESCE(LAG(c.cost) OVER earlier, o.cost) AS cost
    FROM correction c JOIN outcome o USING (request_id)
    WINDOW earlier AS (PARTITION BY c.request_id ORDER BY c.sequence)
) WHERE previous_response <> response OR previous_cost <> cost LIMIT 1
"""
OPEN = "SELECT side, SUM(reserved) FROM hold GROUP BY side"
KEPT_TALLY = "SELECT side, level, reason, decisions, authorized, reserved FROM tally"
KEPT_SETTLED = """
SELECT side, outcomes, spent, late, misdated, refunded, overridden, reversal, refund, clawback
FROM settlement WHERE outcomes > 0
"""
KEPT_OPEN = """
SELECT * FROM (
    SELECT side, SUM(reserved) - COALESCE((SELECT closed FROM settlement s WHERE s.side = t.side), 0) AS left
    FROM tally t GROUP BY side
) WHERE left <> 0
"""
TRAFFIC = f"SELECT decided_at / {QUARTER}, side, COUNT(*) FROM decision GROUP BY 1, 2"
KEPT_TRAFFIC = "SELECT quarter, side, requests FROM traffic"
MOVED = """
SELECT COALESCE(SUM(IIF(half = 'give', amount, 0)), 0), COALESCE(SUM(IIF(state IN ('taken', 'returned')
    AND (half = 'take') = (state = 'taken'), amount, 0)), 0) FROM move
"""
SUMS = {
    "tally": (TALLY, KEPT_TALLY),
    "settlement": (SETTLED, KEPT_SETTLED),
    "open authorizations": (OPEN, KEPT_OPEN),
    "traffic": (TRAFFIC, KEPT_TRAFFIC),
    "moves": (MOVED, "SELECT given, received FROM moved"),
}
"""What the rows say, and what is kept with them; two queries of the same answer."""


def backup(ledger: Path, copy: Path) -> None:
    """Copy the ledger of one moment to a new file, which appears whole, audited and on disk, or not at all.

    Raises:
        NotFound: there is no ledger.
        Conflict: there is a file of the copy's name.
        InvalidInput: the copy does not pass :func:`audit`.
        Unavailable: the ledger cannot be read, or the copy not written.
    """
    if not ledger.is_file():
        raise NotFound(f"there is no ledger {ledger}")
    draft = copy.with_name(f".{copy.name}.{uuid.uuid4().hex}")
    try:
        with closing(open_for_reading(ledger)) as source, closing(sqlite3.connect(draft)) as target:
            source.backup(target)
            # One file that can be moved: the journal that the ledger keeps beside it is copied into it.
            target.execute("PRAGMA journal_mode = DELETE")
            mark_copy(target)
            target.commit()
        audit(draft)
        os.link(draft, copy)
    except FileExistsError:
        raise Conflict(f"{copy} exists; a backup is not written over another") from None
    except (sqlite3.Error, OSError) as error:
        raise Unavailable(f"ledger {ledger}: cannot be copied to {copy}: {error}") from error
    finally:
        draft.unlink(missing_ok=True)


def audit(ledger: Path) -> None:
    """Hold the sums to the rows, and the rows to each other and to the file's format. O(rows).

    Raises:
        InvalidInput: something differs; says what.
        Unavailable: the file cannot be read.
    """
    try:
        with closing(open_for_reading(ledger)) as database:
            (sound,) = database.execute("PRAGMA integrity_check(1)").fetchone()
            if sound != "ok":
                raise InvalidInput(f"is damaged: {sound}", field=str(ledger))
            if database.execute("PRAGMA foreign_key_check").fetchone() is not None:
                raise InvalidInput("has an outcome, authorization or release without its decision", field=str(ledger))
            schema = database.execute("SELECT value FROM about WHERE key = 'schema'").fetchone()
            if schema != (SCHEMA_VERSION,):
                of = None if schema is None else schema[0]
                raise InvalidInput(
                    f"its schema is {of!r}, not {SCHEMA_VERSION!r}: use its own release", field=str(ledger)
                )
            if database.execute(CHAINED).fetchone() is not None:
                raise InvalidInput("has a correction that does not follow the one before it", field=str(ledger))
            for name, (rows, kept) in SUMS.items():
                if sorted(database.execute(rows)) != sorted(database.execute(kept)):
                    raise InvalidInput(f"its {name} is not the sum of its rows", field=str(ledger))
    except sqlite3.Error as error:
        raise Unavailable(f"ledger {ledger}: {error}") from error


def copy_audited(
    ledger: Annotated[Path, typer.Argument(help="the ledger's sqlite file; it may be in use")],
    copy: Annotated[Path, typer.Argument(help="a file that does not exist")],
) -> None:
    """Copy the ledger database."""
    backup(ledger, copy)
    with closing(open_for_reading(copy)) as database:
        decisions, outcomes, spent = (
            database.execute(f"SELECT {what}").fetchone()[0]
            for what in (
                "COUNT(*) FROM decision",
                "COUNT(*) FROM outcome",
                "COALESCE(SUM(spent - refunded), 0) FROM settlement",
            )
        )
    print(f"{copy}: {decisions} decisions, {outcomes} outcomes, {spent} minor units spent; audited")


main = main_of(copy_audited, "python -m serving.ledger.sqlite.backup", failure="error")

if __name__ == "__main__":
    sys.exit(main())
