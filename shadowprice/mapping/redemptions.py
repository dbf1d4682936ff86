"""Order exports as redemptions of codes: a mapping of one file, read by the rules of every other mapping."""

from collections.abc import Mapping as MappingABC
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any, get_args

import duckdb
import pandas as pd
import pyarrow as pa

from shadowprice.checks import require
from shadowprice.errors import InvalidInput
from shadowprice.mapping.columns import column_sql
from shadowprice.mapping.description import LINES, Column, Mapping, column_of, source_of
from shadowprice.mapping.document import read_yaml
from shadowprice.mapping.expressions import columns_of, refuse_rounded
from shadowprice.mapping.faults import Lines
from shadowprice.mapping.keys import Kinds, Unit, currency_code, reject_unknown, time_zone
from shadowprice.mapping.opened import ROW, Opened, literal, quoted
from shadowprice.mapping.sources import disk_full, open_sources, table_of
from shadowprice.tables.database import empty_database
from shadowprice.tables.schema import TEXT, TIME, WHOLE

KEYS = ("currency", "money", "timezone", "repeated_hour", "source", "columns", "where", "lines")
"""Keys of a mapping of redemptions."""
COLUMNS = {
    "order_id": TEXT,
    "code": TEXT,
    "redeemed_at": TIME,
    "discount": WHOLE,
    "total": WHOLE,
    "refunded": WHOLE,
    "currency": TEXT,
}
"""Canonical columns, and their types."""
REQUIRED = ("order_id", "code", "redeemed_at", "discount")
MONEY = ("discount", "total", "refunded")


@dataclass(frozen=True, eq=False)
class Redemptions:
    """Lines of an order export that have a code.

    lines      columns of :data:`COLUMNS` and ``line``, the line in the file; amounts in minor units, 0 where there is
               none, and without a value in another currency
    without    number of lines without a code
    combine    one of :data:`~shadowprice.mapping.description.LINES`
    currency   of the mapping
    totals     whether the lines have totals of orders
    """

    lines: pd.DataFrame
    without: int
    combine: str
    currency: str
    totals: bool


def read_redemptions(file: Path, mapping: Path) -> Redemptions:
    """Read an order export by its mapping. O(lines).

    Raises:
        NotFound: there is no such file.
        InvalidInput: the mapping has an unknown or wrong key, or names a column that the file does not have.
        InvalidTable: cells cannot be read; names the columns and lines of the file.
    """
    document = read_yaml(mapping)
    reject_unknown(document, KEYS, mapping.name)
    form = Kinds.mapping(document.get("source"), "source")
    require("file" not in form, "source.file", "is named by the command; remove it")
    source = source_of("redemptions", form | {"file": escape(file.name)}, "source")
    columns = _columns(document)
    where = Kinds.text(document.get("where", ""), "where")
    described = Mapping(
        folder=file.parent,
        currency=currency_code(document.get("currency", "USD")),
        unit=Kinds.choice(document.get("money", "major"), get_args(Unit), "money"),
        timezone=time_zone(document.get("timezone", ""), "timezone"),
        repeated_hour=Kinds.choice(document.get("repeated_hour", ""), ("", "first", "second"), "repeated_hour"),
        tables={},
        split={},
    )
    with empty_database() as db:
        read = {origin.column for origin in columns.values() if origin.column}
        texts = {f"columns.{name}": origin.expression for name, origin in columns.items()} | {"where": where}
        for place, text in texts.items():
            read |= columns_of(db, text, place) if text else set()
        opened = open_sources(db, file.parent, [source], {source.name: read}, outside=True)[source.name]
        for place, text in texts.items():
            if text:
                refuse_rounded(db, text, table_of(opened.source), place)
        frame = _queried(db, described, columns, where, opened)
    lines = _checked(frame, columns, opened, described.currency)
    coded = lines["code"].notna()
    combine = Kinds.choice(document.get("lines", ""), LINES, "lines")
    coded_lines, without = lines[coded].reset_index(drop=True), int((~coded).sum())
    return Redemptions(coded_lines, without, combine, described.currency, "total" in columns)


def _columns(document: MappingABC[str, Any]) -> dict[str, Column]:
    given = Kinds.mapping(document.get("columns"), "columns")
    reject_unknown(given, COLUMNS, "columns")
    for name in REQUIRED:
        require(name in given, f"columns.{name}", "is missing: name the column of the file")
    if "refunded" in given and "total" not in given:
        reason = "is missing: a refund takes back the share of the discount that it is of the total"
        raise InvalidInput(reason, field="columns.total")
    return {name: column_of(origin, f"columns.{name}") for name, origin in given.items()}


def _queried(
    db: duckdb.DuckDBPyConnection, mapping: Mapping, columns: MappingABC[str, Column], where: str, opened: Opened
) -> pd.DataFrame:
    """Return the columns as texts, and the row in the source."""
    sql = {}
    for name, origin in columns.items():
        try:
            sql[name] = column_sql(db, origin, name, COLUMNS[name], opened, mapping)
        except InvalidInput as error:
            raise InvalidInput(error.reason, field=f"columns.{name}") from error
    if "currency" in sql:
        # Another currency may have other decimals, so that its amounts could not be read.
        own = f"coalesce(upper(trim(CAST({sql['currency']} AS VARCHAR))), '') IN ('', {literal(mapping.currency)})"
        sql |= {name: f"CASE WHEN {own} THEN {sql[name]} END" for name in MONEY if name in sql}
    selected = ", ".join(f"CAST({expression} AS VARCHAR) AS {quoted(name)}" for name, expression in sql.items())
    query = f"SELECT {selected}, {quoted(ROW)} AS {quoted(ROW)} FROM {table_of(opened.source)}"
    try:
        found = db.sql(f"{query}{f' WHERE {where}' if where else ''} ORDER BY {quoted(ROW)}").to_arrow_table()
    except duckdb.Error as error:
        raise disk_full(error) or InvalidInput(f"cannot be read: {error}", field=opened.source.label) from error
    texts: pd.DataFrame = found.to_pandas(types_mapper={pa.string(): pd.StringDtype("pyarrow")}.get)
    return texts


def _checked(frame: pd.DataFrame, columns: MappingABC[str, Column], opened: Opened, currency: str) -> pd.DataFrame:
    """Return the lines in their canonical types; a cell that does not fit is refused with its line."""
    found = Lines(frame, COLUMNS, {name: column.label for name, column in columns.items()}, opened)
    rows = frame[ROW].to_numpy()
    known = {"line": pd.Series([opened.at(int(row))[2] or int(row) for row in rows]), **found.known}
    coded = known["code"].notna().to_numpy()
    known["currency"] = known["currency"].str.upper() if "currency" in frame else known["currency"]
    foreign = known["currency"].notna() & (known["currency"] != currency)
    for name in MONEY:
        found.refuse(name, (known[name] < 0).fillna(False).to_numpy(dtype=bool), "must not be negative")
        known[name] = known[name].where(foreign, known[name].fillna(0))
    for name in ("order_id", "redeemed_at"):
        found.refuse(name, coded & frame[name].isna().to_numpy(), "must not be empty where there is a code")
    found.raise_problems("redeemed_at")
    return pd.DataFrame(known)
