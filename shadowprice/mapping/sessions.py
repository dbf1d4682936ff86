"""Voucher sessions of a mapping: collected vouchers with their terms, redemptions, and carts and orders around them."""

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as MappingABC
from dataclasses import replace

import duckdb
import pandas as pd

from shadowprice.checks import require
from shadowprice.errors import InvalidInput
from shadowprice.mapping.description import USER_ID, Mapping
from shadowprice.mapping.opened import ROW, Opened, Part, quoted
from shadowprice.mapping.queries import own_parts
from shadowprice.mapping.tables import map_checked
from shadowprice.tables import SessionTables, validate_sessions
from shadowprice.tables.schema import SESSION_TABLES, named_columns

AROUND_DAYS = 7
"""Days before and after a collection whose events are of the session, where events name a person."""
TERMS = {"discount": "face_value", "min_spend": "min_spend"}
"""Column of ``session`` → column of ``offer`` that has it, where a file lists the vouchers."""


def map_sessions(mapping: Mapping, *, outside: bool = False) -> tuple[SessionTables, dict[str, str]]:
    """Read a user's voucher log as ``session`` and ``behaviour``, and return the campaign's columns beside them.

    A file of the vouchers (``offer``) gives the terms that ``session`` lacks, and a file of redemptions (``outcome``)
    gives ``redeemed_at``. ``phase`` follows from the times. Events that name a person belong to each session of that
    person that was collected within :data:`AROUND_DAYS` days of them; those of no session are left out.

    Args:
        mapping: description of the files, which has ``session``.
        outside: whether files may lie outside of the mapping's folder and of the working folder.

    Raises:
        NotFound, Unavailable, InvalidInput, InvalidTable: as :func:`~shadowprice.mapping.map_tables`.
    """

    def check(tables: dict[str, Iterator[pd.DataFrame]]) -> tuple[SessionTables, dict[str, str]]:
        frames = {name: pd.concat(parts, ignore_index=True) for name, parts in tables.items()}
        campaign = frames.pop("campaign", pd.DataFrame())
        require(len(campaign) <= 1, "tables.campaign", f"must have exactly one row, has {len(campaign)}")
        own = {str(name): str(values.iloc[0]) for name, values in campaign.items() if values.notna().any()}
        return validate_sessions(frames), own

    return map_checked(mapping, _parts, (*SESSION_TABLES, "campaign"), check, outside=outside)


def _parts(db: duckdb.DuckDBPyConnection, mapping: Mapping, own: MappingABC[str, Opened]) -> dict[str, list[Part]]:
    parts = own_parts(db, mapping, own)
    sessions = parts["session"]
    if "offer" in parts:
        _refuse(
            db,
            f"SELECT offer_id FROM {_union(parts['offer'], 'offer_id')} GROUP BY 1 HAVING count(*) > 1",
            "offer.columns.offer_id",
            "stands twice; a voucher has one least spend and one discount",
        )
        sessions = [_with_terms(part, parts["offer"]) for part in sessions]
    if "outcome" in parts:
        sessions = _with_redemptions(db, sessions, parts["outcome"])
    found = {"session": sessions}
    if "behaviour" in parts and {"session_id", "collected_at"} <= set(sessions[0].columns):
        found["behaviour"] = [_around(db, part, sessions) for part in parts["behaviour"]]
    return found | {name: parts[name] for name in ("campaign",) if name in parts}


def _with_terms(part: Part, offers: Sequence[Part]) -> Part:
    """Return sessions with the terms that only the file of the vouchers has."""
    held = set.intersection(*(set(offer.columns) for offer in offers))
    more = {name: own for name, own in TERMS.items() if name not in part.columns and own in held}
    if not more or "voucher_id" not in part.columns:
        return part
    terms = ", ".join(f"o.{own} AS {name}" for name, own in more.items())
    query = f"""(SELECT s.*, {terms} FROM {part.query} AS s
        LEFT JOIN {_union(offers, "offer_id", *more.values())} AS o ON s.voucher_id = o.offer_id
        ORDER BY s.{quoted(ROW)})"""
    # A voucher that the file lacks has no terms, and its sessions are refused for it.
    labels = {**part.labels, **dict.fromkeys(more, part.labels["voucher_id"])}
    return replace(part, query=query, columns=(*part.columns, *more), labels=labels)


def _with_redemptions(db: duckdb.DuckDBPyConnection, sessions: Sequence[Part], outcomes: Sequence[Part]) -> list[Part]:
    """Return sessions with the time of their first redemption.

    Raises:
        InvalidInput: redemptions lack a column, or one is of no session.
    """
    for name in ("request_id", "observed_at"):
        if any(name not in part.columns for part in outcomes):
            raise InvalidInput("is missing: session and time of a redemption", field=f"tables.outcome.columns.{name}")
    if any({"redeemed_at", "label"} & set(part.columns) for part in sessions):
        raise InvalidInput("has redemptions, which session has too; keep one of them", field="tables.outcome")
    redeemed = " UNION ALL ".join(
        f"SELECT request_id, observed_at FROM {part.query}"
        + (" WHERE TRY_CAST(redeemed AS DOUBLE) = 1" if "redeemed" in part.columns else "")
        for part in outcomes
    )
    known = f"SELECT session_id FROM {_union(sessions, 'session_id')}"
    _refuse(
        db,
        f"SELECT request_id FROM ({redeemed}) WHERE request_id NOT IN ({known} WHERE session_id IS NOT NULL)",
        "outcome.columns.request_id",
        "is no session_id of the collected vouchers",
    )
    first = f"(SELECT request_id, min(observed_at) AS redeemed_at FROM ({redeemed}) GROUP BY request_id)"
    labels = {"redeemed_at": outcomes[0].labels["observed_at"]}
    return [
        replace(
            part,
            query=f"""(SELECT s.*, r.redeemed_at FROM {part.query} AS s
                LEFT JOIN {first} AS r ON s.session_id = r.request_id ORDER BY s.{quoted(ROW)})""",
            columns=(*part.columns, "redeemed_at"),
            labels={**part.labels, **labels},
        )
        for part in sessions
    ]


def _around(db: duckdb.DuckDBPyConnection, part: Part, sessions: Sequence[Part]) -> Part:
    """Return events with their session and their phase, where the file has neither."""
    if "ts" not in part.columns:
        return part
    collected = f"""(SELECT session_id, user_id, min(TRY_CAST(collected_at AS TIMESTAMPTZ)) AS collected
        FROM {_union(sessions, "session_id", "user_id", "collected_at")} GROUP BY ALL)"""
    at = "TRY_CAST(e.ts AS TIMESTAMPTZ)"
    labels, named = dict(part.labels), "session_id" not in part.columns and USER_ID in part.columns
    if named:
        near = f"abs(date_diff('microsecond', s.collected, {at})) <= {AROUND_DAYS * 86_400_000_000}"
        joined = f"JOIN {collected} AS s ON e.user_id = s.user_id AND ({at} IS NULL OR {near})"
        labels["session_id"] = labels[USER_ID]
    else:
        joined = f"LEFT JOIN {collected} AS s ON e.session_id = s.session_id"
    columns = [name for name in named_columns("behaviour") if name in part.columns]
    selected = [f"e.{name}" for name in columns]
    if named:
        columns, selected = [*columns, "session_id"], [*selected, "s.session_id"]
    if "phase" not in part.columns:
        columns, selected = (
            [*columns, "phase"],
            [*selected, f"CASE WHEN {at} > s.collected THEN 'after' ELSE 'before' END AS phase"],
        )
        labels["phase"] = labels["ts"]
    row = f"e.{quoted(ROW)}"
    query = f"(SELECT {', '.join([*selected, row])} FROM {part.query} AS e {joined} ORDER BY {row})"
    if named and db.execute(f"SELECT count(*) FROM {part.query}").fetchall() != [(0,)]:
        ((kept,),) = db.execute(f"SELECT count(*) FROM {query}").fetchall()
        if not kept:
            reason = f"no event is of a person who collected a voucher within {AROUND_DAYS} days of it"
            raise InvalidInput(reason, field="tables.behaviour.columns.user_id")
    return replace(part, query=query, columns=tuple(columns), labels=labels)


def _union(parts: Sequence[Part], *names: str) -> str:
    """Return the rows of some columns of a table's parts; a part that lacks one does not know it."""
    return "({})".format(
        " UNION ALL ".join(
            "SELECT {} FROM {}".format(
                ", ".join(name if name in part.columns else f"NULL AS {name}" for name in names), part.query
            )
            for part in parts
        )
    )


def _refuse(db: duckdb.DuckDBPyConnection, query: str, place: str, reason: str) -> None:
    """Raise :class:`InvalidInput` where a query of identifiers has a row; the message names the first."""
    rows = db.execute(f"{query} ORDER BY 1 LIMIT 1").fetchall()
    if rows:
        raise InvalidInput(f"{rows[0][0]!r} {reason}", field=f"tables.{place}")
