"""Decisions and outcomes as rows, and back."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import orjson

from serving.ledger.store import Decision, OutcomeRow

DECISION = (
    "request_id, account_id, side, level, incentive, response, expected_cost, propensity, propensities,"
    " reason, model_version, price_version, features_at, decided_at"
)
OUTCOME = "request_id, side, response, cost, late, observed_at, recorded_at"


def values(decision: Decision) -> tuple[Any, ...]:
    """The row of a decision, in the order of :data:`DECISION`."""
    return (
        decision.request_id,
        decision.account_id,
        decision.side,
        decision.level,
        decision.incentive,
        decision.response,
        decision.expected_cost,
        decision.propensity,
        orjson.dumps(decision.propensities).decode(),
        decision.reason,
        decision.model_version,
        decision.price_version,
        decision.features_at,
        decision.decided_at,
    )


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
        OutcomeRow(request_id, side, response, cost, bool(late), observed_at, recorded_at)
        for request_id, side, response, cost, late, observed_at, recorded_at in database.execute(
            query, (sequence, limit)
        )
    ]


def _decision(row: tuple[Any, ...]) -> Decision:
    columns: list[Any] = [*row[:8], tuple(orjson.loads(row[8])), *row[9:]]
    return Decision(*columns)
