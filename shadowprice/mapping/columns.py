"""SQL of one canonical column over the user's own ones.

A cell that cannot be converted keeps its own text, so the check of the canonical tables refuses it and shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shadowprice.errors import InvalidInput
from shadowprice.mapping.description import Column, Mapping, Source
from shadowprice.mapping.sources import ROW, literal, quoted
from shadowprice.tables.schema import FLAG, REAL, TIME, WHOLE

MONEY = frozenset(("face_value", "min_spend", "cost_paid", "amount", "budget_limit", "late_reserve"))
"""Columns that hold amounts."""

_ZONE = r"[T ]\d{2}.*(Z|[+-]\d{2}(:?\d{2})?)$"


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
    text = f"CAST({_raw(column, source, own)} AS VARCHAR)"
    if column.values:
        cases = " ".join(f"WHEN {literal(key)} THEN {literal(value)}" for key, value in column.values.items())
        text = f"CASE {text} {cases} ELSE {text} END"
    of_kind: dict[str, Callable[[], str]] = {
        TIME: lambda: _time(text, column, mapping),
        REAL: lambda: _number(text, column, source),
        WHOLE: lambda: _number(text, column, source),
        FLAG: lambda: f"trim({text})",
    }
    if name in MONEY:
        return _money(_number(text, column, source), column, mapping)
    return of_kind.get(kind, lambda: text)()


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


def _number(text: str, column: Column, source: Source) -> str:
    """A number with a point, without separators of thousands; a constant is written so already."""
    text = f"trim({text})"
    if column.constant is not None:
        return text
    if source.thousands:
        text = f"replace({text}, {literal(source.thousands)}, '')"
    return f"replace({text}, {literal(source.decimal)}, '.')" if source.decimal != "." else text


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
    zoned = f"regexp_matches({text}, {literal(_ZONE)})"
    if column.format:
        parsed = f"try_strptime({text}, {literal(column.format)})"
        instant = f"CAST({parsed} AS TIMESTAMPTZ)" if "%z" in column.format.lower() else _local(parsed, zone)
    else:
        local = _local(f"TRY_CAST({text} AS TIMESTAMP)", zone)
        instant = f"CASE WHEN {zoned} THEN TRY_CAST({text} AS TIMESTAMPTZ) ELSE {local} END"
    if column.plus_days:
        instant = f"{instant} + to_microseconds({round(column.plus_days * 86_400_000_000)})"
    return f"coalesce(strftime(({instant}) AT TIME ZONE 'UTC', '%Y-%m-%dT%H:%M:%S.%fZ'), {text})"


def _local(parsed: str, zone: str) -> str:
    return f"({parsed}) AT TIME ZONE {literal(zone)}" if zone else "CAST(NULL AS TIMESTAMPTZ)"
