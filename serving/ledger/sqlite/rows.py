"""Decisions and outcomes as rows, and back."""

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson

from serving.ledger.sound import sound_decision, sound_outcome
from shadowprice.pacing.decision_log.records import Decision, OutcomeRow, columns

DECISION = ", ".join(Decision._fields)
VECTOR = Decision._fields.index("propensities")
OUTCOME = ", ".join(column.name for column in columns(OutcomeRow))


def values(decision: Decision) -> tuple[Any, ...]:
    """The row of a decision, in the order of :data:`DECISION`."""
    sound_decision(decision)
    return (*decision[:VECTOR], orjson.dumps(decision.propensities).decode(), *decision[VECTOR + 1 :])


def find(database: sqlite3.Connection, request_ids: Sequence[str]) -> dict[str, Decision]:
    """Decisions of the requests that are known. O(n log rows)."""
    rows = database.execute(
        f"SELECT {DECISION} FROM decision WHERE request_id IN (SELECT value FROM json_each(?))",
        (orjson.dumps(list(request_ids)).decode(),),
    )
    return {row[0]: _decision(row) for row in rows}


def decisions_after(database: sqlite3.Connection, sequence: int, limit: int) -> list[Decision]:
    """The decisions with the next numbers."""
    query = f"SELECT {DECISION} FROM decision WHERE sequence > ? ORDER BY sequence LIMIT ?"
    return [_decision(row) for row in database.execute(query, (sequence, limit))]


def outcomes_after(database: sqlite3.Connection, sequence: int, limit: int) -> list[OutcomeRow]:
    """The outcomes with the next numbers."""
    query = f"SELECT {OUTCOME} FROM outcome WHERE sequence > ? ORDER BY sequence LIMIT ?"
    return [
        sound_outcome(replace(row, late=bool(row.late), misdated=bool(row.misdated)))
        for row in (OutcomeRow(*values) for values in database.execute(query, (sequence, limit)))
    ]


def kept(database: sqlite3.Connection) -> tuple[int, int]:
    """Decisions and outcomes in the file: the newest numbers less those before the oldest. O(log rows)."""
    decisions, outcomes = (
        database.execute(
            f"SELECT COALESCE((SELECT MAX(sequence) FROM {table}) - (SELECT MIN(sequence) FROM {table}) + 1, 0)"
        ).fetchone()[0]
        for table in ("decision", "outcome")
    )
    return decisions, outcomes


def _decision(row: tuple[Any, ...]) -> Decision:
    return sound_decision(Decision._make((*row[:VECTOR], tuple(orjson.loads(row[VECTOR])), *row[VECTOR + 1 :])))
