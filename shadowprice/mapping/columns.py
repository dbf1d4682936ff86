"""SQL of one canonical column over the user's own ones.

A cell that cannot be converted keeps its own text, so the check of the canonical tables refuses it and shows it. Where
the reason is known here, it goes with the cell; see :data:`shadowprice.tables.coercion.REFUSED`.
"""

import re
from collections.abc import Callable
from contextlib import suppress

import duckdb

from shadowprice.campaign.long_term import LongTerm
from shadowprice.errors import InvalidInput
from shadowprice.mapping.amounts import amount_sql, number_sql
from shadowprice.mapping.description import Column, Mapping, Source
from shadowprice.mapping.moments import time_sql
from shadowprice.mapping.opened import ROW, Opened, literal, matches, quoted, refused, trimmed
from shadowprice.mapping.sources import table_of
from shadowprice.tables.schema import FLAG, REAL, TIME, WHOLE

MONEY = frozenset(
    (
        *("face_value", "cost", "min_spend", "cost_paid", "amount", "budget_limit", "late_reserve"),
        *("discount", "total", "refunded"),
    )
)
"""Columns that hold amounts."""
YES_NO = frozenset(("redeemed", "clicked"))
"""Columns of 0 and 1, which may be written as false and true."""
EXACT = 2**53
"""Whole numbers up to this one are exact in a column of floats."""
_LOST = "is a number beyond 2^53, whose last digits are lost in a column of numbers; write the column as text"
_PART = "is a fraction, which is no identifier or text; write the column as text"


def column_sql(
    db: duckdb.DuckDBPyConnection, column: Column, name: str, kind: str, opened: Opened | None, mapping: Mapping
) -> str:
    """Return the SQL of a canonical column as text, or as its type where the source has types.

    Args:
        db: with the source.
        column: its origin.
        name, kind: of the canonical column.
        opened: source of the rows; None where they are in the mapping alone.
        mapping: with currency and time zone.

    Raises:
        InvalidInput: the source has no such column.
    """
    raw = _raw(column, opened)
    text = f"CAST({raw} AS VARCHAR)"
    source = Source(name="") if opened is None or column.constant is not None else opened.source
    number = number_sql(raw, source)
    if name in MONEY or (kind == REAL and (column.unit or name == _late(mapping))):
        return amount_sql(_valued(raw, number_sql(raw, source, mapping.currency), column, source), column, mapping)
    converted: dict[str, Callable[[], str]] = {
        TIME: lambda: time_sql(_valued(raw, text, column, source), column, mapping.timezone, mapping.repeated_hour),
        REAL: lambda: _valued(raw, number, column, source),
        WHOLE: lambda: _valued(raw, _as_bit(text, number) if name in YES_NO else number, column, source),
        FLAG: lambda: trimmed(_valued(raw, text, column, source)),
    }
    return converted.get(kind, lambda: _valued(raw, _text(db, raw, column, opened), column, source))()


def _late(mapping: Mapping) -> str:
    """Return the outcome that is the long-term value of the campaign; empty where there is none."""
    for part in mapping.tables.get("campaign", ()):
        text = part.columns.get("long_term", Column()).constant
        with suppress(InvalidInput):  # The check of the canonical tables refuses it.
            return LongTerm.parse(text).late if text else ""
    return ""


def text_sql(db: duckdb.DuckDBPyConnection, raw: str, opened: Opened, *, stored: bool = True) -> str:
    """Return the SQL of a text; whole numbers of a column of floats have no point, and others are refused.

    ``stored`` tells whether ``raw`` is a column of the source.
    """
    text = f"CAST({raw} AS VARCHAR)"
    if stored and _are_floats(db, raw, opened):
        # A program that writes tables as CSV wrote whole numbers as floats, as pandas does where a cell is unknown.
        whole = f"split_part({raw}, {literal(opened.source.decimal)}, 1)"
        fits = f"{matches(text, _whole(opened))} AND abs(TRY_CAST({whole} AS DOUBLE)) <= {EXACT}"
        return f"CASE WHEN {raw} IS NULL THEN NULL WHEN {fits} THEN {whole} ELSE {refused(_LOST, text)} END"
    whole = f"CAST(TRY_CAST({raw} AS HUGEINT) AS VARCHAR)"
    number = f"TRY_CAST({raw} AS DOUBLE)"
    exact = f"CASE typeof({raw}) WHEN 'FLOAT' THEN {2**24} ELSE {EXACT} END"
    return f"""CASE WHEN NOT regexp_matches(typeof({raw}), '^(FLOAT|DOUBLE|DECIMAL)') THEN {text}
        WHEN {raw} IS NULL OR isnan({number}) THEN NULL
        WHEN {number} <> trunc({number}) THEN {refused(_PART, text)}
        WHEN abs({number}) > {exact} AND NOT starts_with(typeof({raw}), 'DECIMAL') THEN {refused(_LOST, text)}
        ELSE {whole} END"""


def _raw(column: Column, opened: Opened | None) -> str:
    if column.constant is not None:
        return literal(column.constant)
    if column.row is not None:
        return f"({literal(column.row)} || {quoted(ROW)})"
    if column.expression:
        # The line end closes a comment.
        return f"({column.expression}\n)"
    assert opened is not None, "a column of a source"
    return opened.sql(column.column)


def _valued(raw: str, other: str, column: Column, source: Source) -> str:
    """The canonical value of an own one; ``other`` of one that the mapping does not list.

    Numbers and flags are compared as such: 1.0 and +1 are 1, and TRUE is true.
    """
    if not column.values:
        return other
    text, number = f"CAST({raw} AS VARCHAR)", number_sql(raw, source)
    cases = [f"WHEN {text} = {literal(key)} THEN {literal(value)}" for key, value in column.values.items()]
    cases += [f"WHEN {trimmed(text)} = {literal(key)} THEN {literal(value)}" for key, value in column.values.items()]
    for key, value in column.values.items():
        if key.strip().lower() in ("true", "false"):
            cases.append(f"WHEN lower({trimmed(text)}) = {literal(key.strip().lower())} THEN {literal(value)}")
        elif (real := _as_number(key, source)) is not None:
            cases.append(f"WHEN TRY_CAST({number} AS DOUBLE) = {real!r} THEN {literal(value)}")
    return f"CASE {' '.join(cases)} ELSE {other} END"


def _as_number(key: str, source: Source) -> float | None:
    """Return the number that a key of ``values`` is, as the cells of the source write it; None for another text."""
    try:
        number = float(key.strip().replace(source.thousands or "\0", "").replace(source.decimal, "."))
    except ValueError:
        return None
    return number if abs(number) < EXACT else None


def _as_bit(text: str, number: str) -> str:
    return f"CASE lower({trimmed(text)}) WHEN 'true' THEN '1' WHEN 'false' THEN '0' ELSE {number} END"


def _text(db: duckdb.DuckDBPyConnection, raw: str, column: Column, opened: Opened | None) -> str:
    if column.constant is not None or column.row is not None or opened is None:
        return f"CAST({raw} AS VARCHAR)"
    return text_sql(db, raw, opened, stored=bool(column.column))


def _whole(opened: Opened) -> str:
    """Return the pattern of a whole number as programs write it into a column of floats."""
    return rf"-?(?:0|[1-9][0-9]*)(?:{re.escape(opened.source.decimal)}0+)?"


def _are_floats(db: duckdb.DuckDBPyConnection, raw: str, opened: Opened) -> bool:
    """Return whether a column of text holds whole numbers, some of which have a decimal or an exponent."""
    table = table_of(opened.source)
    ((is_text,),) = db.execute(f"SELECT typeof({raw}) = 'VARCHAR' FROM {table} LIMIT 1").fetchall() or [(False,)]
    if not is_text:
        return False
    pattern = literal(rf"{_whole(opened)}|-?[0-9][.,]?[0-9]*[eE]\+?[0-9]+")
    signs = " OR ".join(f"contains({raw}, {literal(sign)})" for sign in (f"{opened.source.decimal}0", "e+", "E+"))
    ((some,),) = db.execute(f"SELECT bool_or({signs}) FROM {table}").fetchall()
    if not some:
        return False
    ((every,),) = db.execute(f"SELECT bool_and(regexp_full_match({raw}, {pattern})) FROM {table}").fetchall()
    return bool(every)
