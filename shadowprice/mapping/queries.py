"""Queries that give the canonical tables of a mapping, also of tables that follow from others."""

from collections.abc import Collection, Sequence
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, replace

import duckdb

from shadowprice.campaign import SIDES
from shadowprice.checks import require
from shadowprice.errors import InvalidInput
from shadowprice.mapping.columns import column_sql
from shadowprice.mapping.description import (
    COST,
    DEMAND,
    FACE_VALUE,
    MIN_SPEND,
    OFFERED,
    PERCENT,
    RESULTS,
    Column,
    Mapping,
    Table,
)
from shadowprice.mapping.expressions import columns_of
from shadowprice.mapping.opened import ROW, Opened, quoted
from shadowprice.mapping.sources import disk_full, table_of
from shadowprice.tables.schema import TEXT, kind_of

KINDS = {"customer": "coupon", "merchant": "commission"}
"""Kind of the offers of a side, where no file lists the offers."""
_NO_ROW = f"CAST(NULL AS BIGINT) AS {quoted(ROW)}"


@dataclass(frozen=True)
class Part:
    """Rows of a canonical table.

    query    gives its columns, and the row of the source; rows in the order of the source
    columns  of the table
    source   name of the file, for messages
    labels   canonical column → the user's own
    opened   the source, None where the rows follow from other tables or are in the mapping
    """

    query: str
    columns: tuple[str, ...]
    source: str
    labels: MappingABC[str, str]
    opened: Opened | None = None


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


def table_parts(db: duckdb.DuckDBPyConnection, mapping: Mapping, own: MappingABC[str, Opened]) -> dict[str, list[Part]]:
    """Return the parts of each table; those that have rows of a file become tables of ``db``, in place of the sources.

    Tables that no file has follow from the others: the offers are the values that were offered, the accounts those
    that a request or an edge names, and the results may be columns of the offers that were made.

    Raises:
        InvalidInput: a source has no such column, or an expression is not SQL.
    """
    parts = own_parts(db, mapping, own)
    made = parts["exposure"]
    if parts.get("outcome"):
        for part in made:
            _refuse_results(part)
    if "outcome" not in parts:
        parts["outcome"] = [_results(part, mapping) for part in made if set(part.columns) & RESULTS]
    if "offer" not in parts:
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
        kind = kind_of(table, name) or kind_of("outcome" if name in RESULTS else "offer", name) or TEXT
        try:
            sql[name] = column_sql(db, column, name, kind, own.get(given.source.name), mapping)
        except InvalidInput as error:
            raise InvalidInput(error.reason, field=f"{place}.columns.{name}") from error
    relation = table_of(given.source) if given.source.name else f"(SELECT 0 AS {quoted(ROW)})"
    selected = ", ".join(f"{expression} AS {quoted(name)}" for name, expression in sql.items())
    where = f" WHERE {given.where}" if given.where else ""
    rows = quoted(f"mapped_{table}_{number}")
    try:
        # Kept, because several tables follow from these rows, and the times of a million take a second.
        db.execute(f"CREATE TABLE {rows} AS SELECT {quoted(ROW)}, {selected} FROM {relation}{where}")
    except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException) as error:
        raise InvalidInput(f"is not SQL over {given.source.label}: {error}", field=place) from error
    except duckdb.Error as error:
        raise disk_full(error) or InvalidInput(f"cannot be read: {error}", field=given.source.label) from error
    names = tuple(sql)
    if table == "exposure" and "offer_id" not in sql:
        names = (*names, "offer_id")
        rows = f"(SELECT *, side || '-' || {FACE_VALUE} AS offer_id FROM {rows})"
    return Part(rows, names, given.source.label, _labels(columns), own.get(given.source.name))


def _labels(columns: MappingABC[str, Column]) -> dict[str, str]:
    return {name: column.label for name, column in columns.items()}


def _results(part: Part, mapping: Mapping) -> Part:
    """Results that are columns of the offers that were made; a row without any has none yet.

    Without a column for it, the cost of the offer was paid: always where the campaign pays on grant, else for each
    redemption. Of an offer in percent that is its part of the order's amount. A place of a delivery costs nothing.
    """
    names = [name for name in part.columns if name in RESULTS]
    require("observed_at" in names, "tables.exposure.columns.observed_at", "is missing: when the result was known")
    selected = ", ".join([quoted(ROW), "request_id", *names])
    if "mature" not in names:
        selected += ", 'true' AS mature"
    if "cost_paid" not in names:
        priced = [name for name in (COST, FACE_VALUE) if name in part.columns]
        if any(DEMAND in offers.columns for offers in mapping.tables.get("offer", ())):
            priced = ["'0'"]
        if "redeemed" not in part.columns or not priced:
            reason = f"is missing in {part.source}: what was paid; it follows from redeemed and a face_value or cost"
            raise InvalidInput(reason, field="tables.exposure.columns.cost_paid")
        granted = "false"
        if "campaign" in mapping.tables:
            bases = {side: mapping.tables["campaign"][0].columns.get(f"cost_basis_{side}") for side in SIDES}
            sides = [f"'{side}'" for side, base in bases.items() if base and base.constant == "on_grant"]
            granted = f"side IN ({', '.join(sides)})" if sides else granted
        paid = f"coalesce({', '.join(priced)})"
        if PERCENT in part.columns:
            paid = f"CASE WHEN {PERCENT} IS NULL THEN {paid} ELSE {_part_paid(part)} END"
        selected += f", CASE WHEN TRY_CAST(redeemed AS DOUBLE) = 1 OR {granted} THEN {paid} ELSE '0' END AS cost_paid"
    known = " OR ".join(f"{name} IS NOT NULL" for name in names if name not in ("observed_at", "mature"))
    columns = tuple(dict.fromkeys(["request_id", *names, "mature", "cost_paid"]))
    paid_by = next((part.labels[name] for name in ("cost_paid", COST, FACE_VALUE) if name in part.labels), "")
    labels = {**part.labels, "cost_paid": paid_by}
    query = f"(SELECT {selected} FROM {part.query} WHERE {known or 'true'})"
    return replace(part, query=query, columns=columns, labels=labels)


def _refuse_results(part: Part) -> None:
    """Refuse results in the table exposure beside a table outcome, which alone would be read."""
    names = [f"{name} ({part.labels[name]})" for name in part.columns if name in RESULTS]
    if names:
        reason = f"has results beside the table outcome: move {', '.join(names)} there, with request_id and mature"
        raise InvalidInput(reason, field="tables.exposure.columns")


def _part_paid(part: Part) -> str:
    """Return the SQL of what an offer in percent pays for its order.

    Raises:
        InvalidInput: the amounts of orders, or the caps, are not mapped.
    """
    for name in ("amount", FACE_VALUE):
        if name not in part.columns:
            reason = f"is missing: what was paid; or map {name}, from which offers in percent tell it"
            raise InvalidInput(reason, field="tables.exposure.columns.cost_paid")
    order, percent, cap = (f"TRY_CAST({name} AS DOUBLE)" for name in ("amount", PERCENT, FACE_VALUE))
    paid = f"CAST(CAST(least(round({percent} / 100 * {order}), {cap}) AS BIGINT) AS VARCHAR)"
    if MIN_SPEND not in part.columns:
        return paid
    return f"CASE WHEN {order} < coalesce(TRY_CAST({MIN_SPEND} AS DOUBLE), 0) THEN '0' ELSE {paid} END"


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
