"""SQL of times in the forms that people write, as instants in UTC."""

import re

from shadowprice.mapping.description import Column
from shadowprice.mapping.opened import literal, matches, refused, trimmed

_DATE = r"\d{4}[-/]\d{1,2}[-/]\d{1,2}"
_MOMENT = _DATE + r"[T ] *\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?"
LOCAL_TIME = rf"{_DATE}|{_MOMENT}"
"""Pattern of a whole text that is a date, or a time without a zone."""
UTC_TIME = rf"({_MOMENT}) *(?:Z|z|UTC|GMT)"
"""Pattern of a time in UTC; its group is the time without the zone."""
OFFSET_TIME = rf"({_MOMENT}) *([+-](?:0\d|1[0-8])(?::?[0-5]\d(?::[0-5]\d)?)?)"
"""Pattern of a time with an offset; its groups are the time and the offset."""
SINCE = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1}
"""Format of a time that is a number since 1970 in UTC → microseconds of its unit."""
EXCEL = "excel"
"""Format of a time that is a spreadsheet's number of days since 30 December 1899."""
_NUMBER = "DECIMAL(28, 10)"
_FORMAT_OF_UTC = re.compile(r".*[^%](Z|z|UTC|GMT)", re.DOTALL)
_SHIFTS = ("1 hour", "30 minutes", "2 hours")
"""How far clocks are set."""


def time_sql(text: str, column: Column, zone: str, which: str = "") -> str:
    """Return the SQL of a time in UTC as ISO 8601 writes it.

    Args:
        text: SQL of the cell.
        column: with the form of the time, and its own zone.
        zone: of times without one; empty: they are left as they are.
        which: ``first`` or ``second`` of two hours where clocks are set back; empty: neither.
    """
    text = trimmed(text)
    zone = column.timezone or zone
    if column.format in SINCE or column.format == EXCEL:
        number = f"TRY_CAST({text} AS {_NUMBER})"
        # Days in decimals are exact to some microseconds.
        scaled = f"round({number} * {SINCE.get(column.format, 86_400)})" + (
            " * 1000000" if column.format == EXCEL else ""
        )
        instant = f"TRY(make_timestamp(CAST({scaled} AS BIGINT)))"
        if column.format in SINCE:
            return _local(instant, "UTC", which, column, text)
        return _local(f"({instant} - INTERVAL '25569 days')", zone, which, column, text)
    if column.format:
        parsed = f"try_strptime({text}, {literal(column.format)})"
        zoned = "%z" in column.format.lower()
        if zoned:
            return _iso(f"CAST({parsed} AS TIMESTAMPTZ)", column, text)
        return _local(parsed, "UTC" if _FORMAT_OF_UTC.fullmatch(column.format) else zone, which, column, text)
    # Without the spaces before the offset, which a cast to TIMESTAMPTZ refuses.
    moment = rf"regexp_replace({text}, {literal(OFFSET_TIME)}, '\1\2')"
    utc = f"TRY_CAST(regexp_extract({text}, {literal(UTC_TIME)}, 1) AS TIMESTAMP)"
    # A text of another form may name a zone, which a cast to TIMESTAMP would leave out.
    return f"""CASE
        WHEN {matches(text, LOCAL_TIME)} THEN {_local(f"TRY_CAST({text} AS TIMESTAMP)", zone, which, column, text)}
        WHEN {matches(text, OFFSET_TIME)} THEN {_iso(f"TRY_CAST({moment} AS TIMESTAMPTZ)", column, text)}
        WHEN {matches(text, UTC_TIME)} THEN {_local(utc, "UTC", which, column, text)} ELSE {text} END"""


def _local(parsed: str, zone: str, which: str, column: Column, text: str) -> str:
    """Return the SQL of a time of a zone; one that the clocks showed twice or never is refused."""
    if not zone:
        return text
    instant = _instant(parsed, zone)
    if zone == "UTC":
        return _iso(instant, column, text)
    # Near a change of clocks, three hours before and after are not as far apart as they look.
    beside = [f"{sign} INTERVAL '3 hours'" for sign in "+-"]
    regular = " AND ".join(f"{_instant(f'({parsed}) {step}', zone)} = {instant} {step}" for step in beside)
    shifted = [f"{instant} {sign} INTERVAL {literal(shift)}" for shift in _SHIFTS for sign in "+-"]
    same = [f"(({candidate}) AT TIME ZONE {literal(zone)}) = ({parsed})" for candidate in shifted]
    never = refused(f"is an hour that {zone} does not have, as clocks are set forward; is the zone right?", text)
    faults = f"WHEN ({instant} AT TIME ZONE {literal(zone)}) <> ({parsed}) THEN {never}"
    if which:
        others = ", ".join(
            f"CASE WHEN {test} THEN {candidate} END" for test, candidate in zip(same, shifted, strict=True)
        )
        chosen = f"{'least' if which == 'first' else 'greatest'}({instant}, {others})"
        instant = f"CASE WHEN {regular} THEN {instant} ELSE {chosen} END"
    else:
        twice = refused(
            f"is an hour that {zone} has twice; write an offset, or name repeated_hour in the mapping", text
        )
        faults += f" WHEN {' OR '.join(same)} THEN {twice}"
    fault = f"CASE WHEN ({parsed}) IS NULL OR ({regular}) THEN NULL {faults} END"
    return f"coalesce({fault}, {_iso(instant, column, text)})"


def _instant(parsed: str, zone: str) -> str:
    return f"(({parsed}) AT TIME ZONE {literal(zone)})"


def _iso(instant: str, column: Column, text: str) -> str:
    if column.plus_days:
        instant = f"{instant} + to_microseconds({round(column.plus_days * 86_400_000_000)})"
    return f"coalesce(strftime(({instant}) AT TIME ZONE 'UTC', '%Y-%m-%dT%H:%M:%S.%fZ'), {text})"
