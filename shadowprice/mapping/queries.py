"""Queries that give the canonical tables of a mapping, also of tables that follow from others."""

from collections.abc import Collection, Sequence
from collections.abc import Mapping as MappingABC
from dataclasses import replace

import duckdb

from shadowprice.campaign import SIDES
from shadowprice.errors import InvalidInput
from shadowprice.mapping.columns import column_sql
from shadowprice.mapping.description import (
    COST,
    FACE_VALUE,
    OFFERED,
    ORDER,
    PERCENT,
    RESULTS,
    Mapping,
    Table,
)
from shadowprice.mapping.expressions import columns_of, refuse_rounded
from shadowprice.mapping.left_out import leave_out
from shadowprice.mapping.opened import ROW, Opened, Part, quoted
from shadowprice.mapping.orders import ordered
from shadowprice.mapping.outcomes import completed, own_results, refuse_results
from shadowprice.mapping.sources import disk_full, table_of
from shadowprice.tables.schema import TEXT, kind_of

KINDS = {"customer": "coupon", "merchant": "commission"}
"""Kind of the offers of a side, where no file lists the offers."""
_NO_ROW = f"CAST(NULL AS BIGINT) AS {quoted(ROW)}"


def wanted_columns(db: duckdb.DuckDBPyConnection, mapping: Mapping) -> dict[str, set[str]]:
    """Return the columns of each source that the mapping reads.

    Raises:
        InvalidInput: an expression is none, or does more than to read columns.
    """
    names_of: dict[str, set[str]] = {}
    for table, parts in mapping.tables.items():
        for part in parts:
            names = names_of.setdefault(part.source.name, set())
            names |= {column.column for column in part.columns.values() if column.column}
            place = f"tables.{table}"
            expressions = {f"{place}.columns.{name}": origin.expression for name, origin in part.columns.items()}
            expressions[f"{place}.where"] = part.where
            for field, text in expressions.items():
                names |= columns_of(db, text, field) if text else set()
    return names_of


def table_parts(
    db: duckdb.DuckDBPyConnection, mapping: Mapping, own: MappingABC[str, Opened], notes: dict[str, str]
) -> dict[str, list[Part]]:
    """Return the parts of each table; those that have rows of a file become tables of ``db``, in place of the sources.

    Tables that no file has follow from the others: the offers are the values that were offered, the accounts those
    that a request or an edge names, and the results may be columns of the offers that were made, or follow from orders,
    of which ``notes`` gets what was left out.

    Raises:
        InvalidInput: a source has no such column, or an expression is not SQL.
    """
    parts = own_parts(db, mapping, own)
    made = parts["exposure"]
    offers = parts.get("offer", [])
    if parts.get("outcome") or "order" in parts:
        for part in made:
            refuse_results(part)
        outcomes = [completed(part, made, offers, mapping) for part in parts.get("outcome", ())]
        for orders in parts.pop("order", ()):
            outcome, notes["orders"] = ordered(db, orders, made, mapping)
            outcomes.append(completed(outcome, made, offers, mapping, used="used"))
        parts["outcome"] = outcomes
    if "outcome" not in parts:
        parts["outcome"] = [own_results(part, mapping) for part in made if set(part.columns) & RESULTS]
    if not offers:
        parts["offer"] = _offers(made)
    parts["exposure"] = [_offered(part) for part in made]
    accounts = parts.get("account", [])
    known = {side for side in SIDES for account in mapping.tables.get("account", ()) if _may_hold(account, side)}
    parts["account"] = accounts + _accounts(made, parts.get("edge", []), known)
    return {table: mapped for table, mapped in parts.items() if mapped}


def own_parts(db: duckdb.DuckDBPyConnection, mapping: Mapping, own: MappingABC[str, Opened]) -> dict[str, list[Part]]:
    """Return the parts of the tables that the mapping has, as :func:`table_parts` does before others follow."""
    parts = {
        table: [_mapped(db, mapping, own, table, number, entry) for number, entry in enumerate(entries)]
        for table, entries in mapping.tables.items()
    }
    leave_out(db, mapping, own, parts)
    for opened in own.values():
        db.execute(f"DROP TABLE {table_of(opened.source)}")
    return parts


def _mapped(
    db: duckdb.DuckDBPyConnection,
    mapping: Mapping,
    own: MappingABC[str, Opened],
    table: str,
    number: int,
    given: Table,
) -> Part:
    place = f"tables.{table}"
    columns = dict(given.columns)
    if table == "exposure" and "offer_id" not in columns and FACE_VALUE not in columns:
        raise InvalidInput("needs offer_id, or face_value where no file lists the offers", field=f"{place}.columns")
    if table == "exposure" and "offer_id" not in columns and PERCENT in columns:
        raise InvalidInput("needs offer_id: the cap does not tell percentages apart", field=f"{place}.columns")
    sql: dict[str, str] = {}
    for name, column in columns.items():
        more = kind_of("outcome" if name in RESULTS else "offer", name) or TEXT
        kind = ORDER[name] if table == "order" else kind_of(table, name) or more
        try:
            sql[name] = column_sql(db, column, name, kind, own.get(given.source.name), mapping)
        except InvalidInput as error:
            raise InvalidInput(error.reason, field=f"{place}.columns.{name}") from error
    relation = table_of(given.source) if given.source.name else f"(SELECT 0 AS {quoted(ROW)})"
    selected = ", ".join(f"{expression} AS {quoted(name)}" for name, expression in sql.items())
    expressions = {f"columns.{name}": column.expression for name, column in columns.items()}
    for field, text in {**expressions, "where": given.where}.items():
        if text:
            refuse_rounded(db, text, relation, f"{place}.{field}")
    where = f" WHERE {given.where}" if given.where else ""
    rows = quoted(f"mapped_{table}_{number}")
    try:
        # Kept, because several tables follow from these rows, and the times of a million take a second.
        db.execute(f"CREATE TABLE {rows} AS SELECT {quoted(ROW)}, {selected} FROM {relation}{where}")
    except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException) as error:
        hint = (
            "\nCells of a CSV file are texts: write CAST(column AS DOUBLE) for a number."
            if "VARCHAR" in str(error)
            else ""
        )
        raise InvalidInput(f"is not SQL over {given.source.label}: {error}{hint}", field=place) from error
    except duckdb.Error as error:
        raise disk_full(error) or InvalidInput(f"cannot be read: {error}", field=given.source.label) from error
    names = tuple(sql)
    if table == "exposure" and "offer_id" not in sql:
        names = (*names, "offer_id")
        rows = f"(SELECT *, side || '-' || {FACE_VALUE} AS offer_id FROM {rows})"
    labels = {name: column.label for name, column in columns.items()}
    return Part(rows, names, given.source.label, labels, own.get(given.source.name))


def _offered(part: Part) -> Part:
    """Return the offers that were made without the columns of other tables."""
    columns = tuple(name for name in part.columns if kind_of("exposure", name) is not None)
    return replace(part, columns=columns)


def _offers(made: Sequence[Part]) -> list[Part]:
    """Return the offers that were made, of each side once."""
    names = [name for name in OFFERED if any(name in part.columns for part in made)]
    if not all({FACE_VALUE, COST} & set(part.columns) for part in made):
        raise InvalidInput(
            "the table is missing: list the offers, or map face_value of the offers that were made; or offer_id and "
            "cost where they have no value in money",
            field="tables.offer",
        )
    cases = " ".join(f"WHEN side = '{side}' THEN '{kind}'" for side, kind in KINDS.items())
    shared = ["offer_id", "side"]
    union = " UNION ALL BY NAME ".join(
        f"SELECT {', '.join([*shared, *(name for name in names if name in part.columns)])}, {_row_of(made)} "
        f"FROM {part.query}"
        for part in made
    )
    kind = f"CASE {f'WHEN {FACE_VALUE} IS NULL' if FACE_VALUE in names else 'WHEN true'} THEN 'other' {cases} END"
    own = ", ".join([*shared, *names])
    query = f"""(SELECT {own}, {kind} AS kind, min({quoted(ROW)}) AS {quoted(ROW)} FROM ({union}) GROUP BY {own}
        ORDER BY side, TRY_CAST({names[0]} AS BIGINT), offer_id)"""
    return [replace(made[0], query=query, columns=("offer_id", "side", "kind", *names))]


def _row_of(made: Sequence[Part]) -> str:
    """Return the SQL of the row of a source that offers follow from; unknown where they come from several sources."""
    return quoted(ROW) if len(made) == 1 else _NO_ROW


def _may_hold(table: Table, side: str) -> bool:
    column = table.columns.get("side")
    return column is None or column.constant in (None, side)


def _accounts(made: Sequence[Part], edges: Sequence[Part], known: Collection[str]) -> list[Part]:
    """Accounts of the sides that no file lists, known from the first time that any of them is named.

    They have no features, so nothing is known too early. Where there are ties they occur a second time, at their own
    first request or tie: a graph of the ties until then is built at these times.
    """
    named: list[str] = []
    row = _row_of(made)
    for part in made:
        named.append(f"SELECT account_id, side, decided_at AS ts, {row} FROM {part.query}")
        if "partner_id" in part.columns:
            other = "CASE side WHEN 'customer' THEN 'merchant' WHEN 'merchant' THEN 'customer' END"
            named.append(f"SELECT partner_id, {other}, decided_at, {row} FROM {part.query}")
    for part in edges:
        named.append(f"SELECT src, 'customer', ts, {_NO_ROW} FROM {part.query}")
        named.append(f"SELECT dst, 'merchant', ts, {_NO_ROW} FROM {part.query}")
    absent = [side for side in SIDES if side not in known]
    if not absent or not {"account_id", "side", "decided_at"} <= set(made[0].columns):
        return []
    sides = ", ".join(f"'{side}'" for side in absent)
    first = f"min({quoted(ROW)}) AS {quoted(ROW)}"
    grouped = f"""SELECT account_id, side, min(ts) AS ts, {first}, TRY_CAST(min(ts) AS TIMESTAMPTZ) IS NOT NULL AS known
        FROM ({" UNION ALL ".join(named)})
        WHERE account_id IS NOT NULL AND side IN ({sides}) GROUP BY account_id, side"""
    # A cell that is no time would be that of every account, and be refused for each.
    start = "CASE WHEN known THEN min(ts) FILTER (known) OVER () ELSE ts END"
    times = f"unnest(list_distinct([{start}, ts]))" if edges else start
    query = f"""(SELECT account_id, side, {times} AS snapshot_ts, {quoted(ROW)} FROM ({grouped})
        ORDER BY side, account_id, snapshot_ts)"""
    labels = {**made[0].labels, "snapshot_ts": made[0].labels["decided_at"]}
    return [replace(made[0], query=query, columns=("account_id", "side", "snapshot_ts"), labels=labels)]
