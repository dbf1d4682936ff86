"""Outcomes of customers that follow from an order export: orders in a window after the offer."""

from collections.abc import Sequence
from dataclasses import replace

import duckdb
import pandas as pd
import pyarrow as pa

from shadowprice.checks import require
from shadowprice.errors import TableProblem
from shadowprice.mapping.description import ORDER, PERCENT, Mapping
from shadowprice.mapping.faults import Lines, unusable
from shadowprice.mapping.opened import ROW, Part, quoted
from shadowprice.tables.database import BATCH
from shadowprice.tables.problems import SHOWN_ROWS
from shadowprice.tables.schema import FLAG, TEXT, TIME, WHOLE

REQUIRED = ("order_id", "account_id", "ordered_at")
_TYPES = {TEXT: "VARCHAR", TIME: "TIMESTAMPTZ", FLAG: "BOOLEAN", WHOLE: "BIGINT"}
_KEPT = "coalesce(abs(discount), 0)"


def ordered(db: duckdb.DuckDBPyConnection, orders: Part, made: Sequence[Part], mapping: Mapping) -> tuple[Part, str]:
    """Return an outcome for each offer to a customer, and a sentence that counts the lines.

    Lines are one order where account and number agree. Its amounts stand in each line, or add up where ``lines`` is
    ``sum``. A line that is canceled or refunded takes its order back; one with a negative amount takes back as much.
    An order belongs to the newest offer that its account had by then, so none counts twice, and is an outcome of it
    where fewer than ``days`` passed. An outcome is final where its window is over by the last order of the export.
    O(lines log lines).

    Args:
        db: gets tables of orders.
        orders: lines of orders.
        made: offers that were made.
        mapping: with the window and the way to read lines.

    Raises:
        InvalidInput: a column is missing, or no line is of an account with an offer.
        InvalidTable: cells cannot be read, or lines of an order differ; names the columns and lines of the file.
    """
    (given,) = mapping.tables["order"]
    for name in REQUIRED:
        require(name in orders.columns, f"tables.order.columns.{name}", "is missing: name the column of the file")
    offered = [part.columns for part in made] + [tuple(part.columns) for part in mapping.tables.get("offer", ())]
    priced = "discount" in orders.columns or not any(PERCENT in names for names in offered)
    require(priced, "tables.order.columns.discount", "is missing: what offers in percent took off each order")
    together = given.lines == "sum"
    _read(db, orders, together)
    _refuse(db, orders, "ordered_at", "min(ordered_at) IS NULL", "is empty in every line of an order")
    for name in () if together else ("amount", "discount"):
        reason = "differs between lines of an order: add `lines: sum` to tables.order where each line has its own part"
        own = name if name in orders.columns else "total"
        _refuse(db, orders, own, f"count(DISTINCT {name}) FILTER (NOT back) > 1", reason)
    window = f"decided + to_microseconds({round(given.days * 86_400_000_000)})"
    _assign(db, made, window, together)
    coded = "code IS NOT NULL" if "code" in orders.columns else "true"
    query = f"""(SELECT o.request_id, {quoted(ROW)},
            strftime(({window}) AT TIME ZONE 'UTC', '%Y-%m-%dT%H:%M:%S.%fZ') AS observed_at,
            CAST({window} <= (SELECT max(ordered_at) FROM order_line) AS VARCHAR) AS mature,
            CASE WHEN known IS NULL THEN '0' ELSE '1' END AS redeemed, CASE WHEN used THEN '1' ELSE '0' END AS used,
            CAST(amount AS VARCHAR) AS amount, CAST(coalesce(cost, 0) AS VARCHAR) AS cost_paid
        FROM order_offer AS o LEFT JOIN (
            SELECT request_id, true AS known, sum(amount) AS amount, bool_or({coded}) AS used,
                sum(CASE WHEN {coded} THEN discount ELSE 0 END) AS cost
            FROM order_one WHERE state = 'counted' GROUP BY request_id
        ) USING (request_id) ORDER BY {quoted(ROW)})"""
    names = ["request_id", "observed_at", "mature", "redeemed"]
    names += ["amount"] if {"amount", "total"} & set(orders.columns) else []
    names += ["cost_paid"] if "discount" in orders.columns else []
    told = orders.labels
    results = {"amount": told.get("amount", told.get("total", "")), "cost_paid": told.get("discount", "")}
    labels = {"request_id": told["account_id"], **results, "redeemed": told["ordered_at"]}
    return replace(orders, query=query, columns=tuple(names), labels=labels, opened=None), _counted(db, orders.source)


def _read(db: duckdb.DuckDBPyConnection, orders: Part, together: bool) -> None:
    """Keep the lines in their types.

    ``amount`` is that before the discount, less what was refunded; ``back`` marks a line that takes its order back, and
    ``again`` one that stands earlier already.
    """
    assert orders.opened is not None, "orders of a file"
    selected = ", ".join(f"CAST({name} AS VARCHAR) AS {name}" for name in orders.columns)
    query = f"SELECT {selected}, {quoted(ROW)} FROM {orders.query} ORDER BY {quoted(ROW)}"
    types = ", ".join(f"{name} {_TYPES[kind]}" for name, kind in ORDER.items())
    db.execute(f"CREATE TABLE order_cell ({types}, {quoted(ROW)} BIGINT)")
    for batch in db.cursor().sql(query).to_arrow_reader(BATCH):
        frame = batch.to_pandas(types_mapper={pa.string(): pd.StringDtype("pyarrow")}.get)
        found = Lines(frame, ORDER, orders.labels, orders.opened)
        found.refuse("order_id", frame["order_id"].isna().to_numpy(), "must not be empty")
        found.raise_problems("ordered_at")
        db.register("order_batch", pd.DataFrame({**found.known, ROW: frame[ROW]}))
        db.execute("INSERT INTO order_cell SELECT * FROM order_batch")
        db.unregister("order_batch")
    again = "false" if together else f"row_number() OVER (PARTITION BY ALL_OF ORDER BY {quoted(ROW)}) > 1"
    again = again.replace("ALL_OF", "account_id, order_id, back, canceled, amount, ordered_at")
    db.execute(f"""CREATE TABLE order_line AS SELECT *, {again} AS again FROM (
        SELECT * EXCLUDE (amount, discount, canceled), abs(discount) AS discount, coalesce(canceled, false) AS canceled,
            gross - coalesce(abs(refunded), 0) AS amount,
            coalesce(canceled OR gross < 0, false)
                OR coalesce(refunded <> 0 AND abs(refunded) >= coalesce(total, gross), false) AS back
        FROM (SELECT *, coalesce(amount, total + CASE WHEN total < 0 THEN -{_KEPT} ELSE {_KEPT} END) AS gross
            FROM order_cell))""")


def _assign(db: duckdb.DuckDBPyConnection, made: Sequence[Part], window: str, together: bool) -> None:
    """Add up the lines of each order, and find its offer and its state: counted, or the reason why it is not.

    ``main`` counts the lines that tell the order, ``backs`` those that take it back, ``repeats`` the others.
    """
    offers = " UNION ALL ".join(
        f"SELECT request_id, trim(account_id) AS account_id, TRY_CAST(decided_at AS TIMESTAMPTZ) AS decided, "
        f"{number} AS part, {quoted(ROW)} AS own FROM {part.query} WHERE side = 'customer'"
        for number, part in enumerate(made)
    )
    place = f"row_number() OVER (ORDER BY part, own) AS {quoted(ROW)}"
    db.execute(f"CREATE TABLE order_offer AS SELECT *, {place} FROM ({offers}) WHERE decided IS NOT NULL")
    joined = "sum" if together else "max"
    once = "lines" if together else "least(lines, 1)"
    db.execute(f"""CREATE TABLE order_one AS
        WITH newest AS (
            SELECT account_id, decided, min(request_id) AS request_id FROM order_offer GROUP BY account_id, decided
        ), one AS (
            SELECT account_id, order_id, count(*) AS total_lines, count(*) FILTER (NOT back) AS lines,
                count(*) FILTER (back AND NOT again) AS backs, min(ordered_at) FILTER (NOT back) AS ordered_at,
                {joined}(amount) FILTER (NOT back)
                    + coalesce(sum(amount) FILTER (back AND NOT again AND amount < 0), 0) AS amount,
                {"false" if together else "bool_or(back AND coalesce(amount >= 0, true))"} AS canceled,
                {joined}(discount) FILTER (NOT back) AS discount, max(code) FILTER (NOT back) AS code
            FROM order_line GROUP BY account_id, order_id
        )
        SELECT one.*, request_id, {once} AS main, total_lines - {once} - backs AS repeats, CASE
            WHEN one.account_id IS NULL OR one.account_id NOT IN (SELECT account_id FROM newest) THEN 'unknown'
            WHEN lines = 0 OR canceled OR (backs > 0 AND coalesce(amount <= 0, false)) THEN 'back'
            WHEN request_id IS NULL THEN 'before'
            WHEN ordered_at >= {window} THEN 'after' ELSE 'counted' END AS state
        FROM one ASOF LEFT JOIN newest ON one.account_id = newest.account_id AND one.ordered_at >= newest.decided""")


def _counted(db: duckdb.DuckDBPyConnection, source: str) -> str:
    """Return how many lines count, and how many are left out for each reason; each line has one."""
    query = "SELECT state, count(*), sum(total_lines), sum(main), sum(backs), sum(repeats) FROM order_one GROUP BY ALL"
    found = {state: tuple(map(int, counts)) for state, *counts in db.execute(query).fetchall()}
    orders, _, counted, *_ = found.get("counted", (0,) * 5)
    known = [counts for state, counts in found.items() if state != "unknown"]
    require(bool(known), "tables.order.columns.account_id", f"no line of {source} is of an account with an offer")
    reasons = {
        "duplicates": sum(repeats for *_, repeats in known),
        "refunds and canceled orders": sum(backs for *_, backs, _ in known) + found.get("back", (0,) * 5)[2],
        "before the offer": found.get("before", (0,) * 5)[2],
        "after the window": found.get("after", (0,) * 5)[2],
        "of accounts without an offer": found.get("unknown", (0,) * 5)[1],
    }
    lines = sum(counts[1] for counts in found.values())
    left = ", ".join(f"{reason} {count:,}" for reason, count in reasons.items())
    return f"{lines:,} lines, of which {counted:,} count as {orders:,} orders; left out: {left}"


def _refuse(db: duckdb.DuckDBPyConnection, orders: Part, name: str, fault: str, reason: str) -> None:
    """Refuse orders of known accounts with a fault, given as SQL over their lines."""
    rows = [
        row
        for (row,) in db.execute(
            f"""SELECT max({quoted(ROW)}) FROM order_line WHERE account_id IS NOT NULL GROUP BY account_id, order_id
            HAVING {fault} ORDER BY 1"""
        ).fetchall()
    ]
    if rows:
        assert orders.opened is not None, "orders of a file"
        places = [orders.opened.at(row) for row in rows[:SHOWN_ROWS]]
        lines = tuple(line for *_, line in places if line is not None)
        label, at = orders.labels.get(name, ""), tuple(row for _, row, _ in places)
        raise unusable([TableProblem(orders.source, label, f"{reason} [order.{name}]", at, len(rows), lines)])
