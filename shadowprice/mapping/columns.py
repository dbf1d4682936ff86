"""SQL of one canonical column over the user's own ones.

A cell that cannot be converted keeps its own text, so the check of the canonical tables refuses it and shows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from shadowprice.errors import InvalidInput
from shadowprice.mapping.description import Column, Mapping, Source
from shadowprice.mapping.sources import ROW, literal, quoted
from shadowprice.tables.schema import FLAG, REAL, TIME, WHOLE

MONEY = frozenset(("face_value", "cost", "min_spend", "cost_paid", "amount", "budget_limit", "late_reserve"))
"""Columns that hold amounts."""

_DATE = r"\d{4}[-/]\d{1,2}[-/]\d{1,2}"
_MOMENT = _DATE + r"[T ] *\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?"
LOCAL_TIME = rf"{_DATE}|{_MOMENT}"
"""Pattern of a whole text that is a date, or a time without a zone."""
UTC_TIME = rf"({_MOMENT}) *(?:Z|z|UTC|GMT)"
"""Pattern of a time in UTC; its group is the time without the zone."""
OFFSET_TIME = rf"({_MOMENT}) *([+-]\d{{2}}(?::?\d{{2}}(?::\d{{2}})?)?)"
"""Pattern of a time with an offset; its groups are the time and the offset."""
_FORMAT_OF_UTC = re.compile(r".*[^%](Z|z|UTC|GMT)", re.DOTALL)


def column_sql(column: Column, name: str, kind: str, source: Source, own: Sequence[str], mapping: Mapping) -> str:
    """Return the SQL of a canonical column as text, or as its type where the source has types.

    Args:
        column: its origin.
        name, kind: of the canonical column.
        source: of the rows.
        own: columns of the source.
        mapping: with currency and time zone.

    Raises:
        InvalidInput: the source has no such column.
    """
    raw = _raw(column, source, own)
    text = f"CAST({raw} AS VARCHAR)"
    converted: dict[str, Callable[[], str]] = {
        TIME: lambda: _time(_valued(text, text, column), column, mapping),
        REAL: lambda: _valued(text, _number(raw, column, source), column),
        WHOLE: lambda: _valued(text, _number(raw, column, source), column),
        FLAG: lambda: f"trim({_valued(text, text, column)})",
    }
    if name in MONEY:
        return _money(converted[WHOLE](), column, mapping)
    return converted.get(kind, lambda: _valued(text, text, column))()


def _raw(column: Column, source: Source, own: Sequence[str]) -> str:
    if column.constant is not None:
        return literal(column.constant)
    if column.row is not None:
        return f"({literal(column.row)} || {quoted(ROW)})"
    if column.expression:
        return f"({column.expression})"
    if column.column not in own:
        raise InvalidInput(f"{source.label} has no column {column.column!r}; it has {', '.join(own)}")
    return quoted(column.column)


def _valued(text: str, other: str, column: Column) -> str:
    """The canonical value of an own one; ``other`` of one that the mapping does not list."""
    if not column.values:
        return other
    cases = " ".join(f"WHEN {literal(key)} THEN {literal(value)}" for key, value in column.values.items())
    return f"CASE {text} {cases} ELSE {other} END"


def _number(raw: str, column: Column, source: Source) -> str:
    """A number with a point, without separators of thousands; a constant and a typed number are written so already."""
    text = f"trim(CAST({raw} AS VARCHAR))"
    if column.constant is not None or (source.decimal == "." and not source.thousands):
        return text
    number = f"replace({text}, {literal(source.thousands)}, '')" if source.thousands else text
    if source.decimal != ".":
        # A point would become the decimal sign, so that 1.500 would be read as 1.5.
        hint = literal(f" has a point; decimal is {source.decimal}")
        point = f"replace({number}, {literal(source.decimal)}, '.')"
        number = f"CASE WHEN contains({number}, '.') THEN {text} || {hint} ELSE {point} END"
    return f"CASE WHEN regexp_matches(typeof({raw}), '^(FLOAT|DOUBLE|DECIMAL)') THEN {text} ELSE {number} END"


def _money(text: str, column: Column, mapping: Mapping) -> str:
    """Whole minor units; an amount that is not whole is left as a fraction, which is refused."""
    digits = mapping.digits if (column.unit or mapping.unit) == "major" else 0
    amount = f"TRY_CAST({text} AS DECIMAL(28, 8)) * CAST({10**digits} AS DECIMAL(6, 0))"
    whole = f"CASE WHEN {amount} = trunc({amount}) THEN CAST(CAST({amount} AS HUGEINT) AS VARCHAR) END"
    return f"coalesce({whole}, CAST({amount} AS VARCHAR), {text})"


def _time(text: str, column: Column, mapping: Mapping) -> str:
    """A time in UTC as ISO 8601 writes it."""
    text = f"trim({text})"
    zone = column.timezone or mapping.timezone
    if column.format:
        parsed = f"try_strptime({text}, {literal(column.format)})"
        zoned = "%z" in column.format.lower()
        own = "UTC" if _FORMAT_OF_UTC.fullmatch(column.format) else zone
        instant = f"CAST({parsed} AS TIMESTAMPTZ)" if zoned else _local(parsed, own)
    else:
        # Without the spaces before the offset, which a cast to TIMESTAMPTZ refuses.
        moment = rf"regexp_replace({text}, {literal(OFFSET_TIME)}, '\1\2')"
        utc = f"TRY_CAST(regexp_extract({text}, {literal(UTC_TIME)}, 1) AS TIMESTAMP)"
        # A text of another form may name a zone, which a cast to TIMESTAMP would leave out.
        instant = f"""CASE
            WHEN {_matches(text, LOCAL_TIME)} THEN {_local(f"TRY_CAST({text} AS TIMESTAMP)", zone)}
            WHEN {_matches(text, OFFSET_TIME)} THEN TRY_CAST({moment} AS TIMESTAMPTZ)
            WHEN {_matches(text, UTC_TIME)} THEN {_local(utc, "UTC")} END"""
    if column.plus_days:
        instant = f"{instant} + to_microseconds({round(column.plus_days * 86_400_000_000)})"
    return f"coalesce(strftime(({instant}) AT TIME ZONE 'UTC', '%Y-%m-%dT%H:%M:%S.%fZ'), {text})"


def _local(parsed: str, zone: str) -> str:
    return f"({parsed}) AT TIME ZONE {literal(zone)}" if zone else "CAST(NULL AS TIMESTAMPTZ)"


def _matches(text: str, pattern: str) -> str:
    return f"regexp_full_match({text}, {literal(pattern)})"
