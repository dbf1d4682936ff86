"""Content of a user's file by column: what its cells can be read as, before any mapping describes them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Any, Literal

import duckdb

from shadowprice.errors import InvalidInput
from shadowprice.mapping.columns import LOCAL_TIME, OFFSET_TIME, UTC_TIME
from shadowprice.mapping.description import Source
from shadowprice.mapping.sources import literal, open_sources, quoted, view_of

SAMPLE_ROWS = 50_000
"""First rows of a file, from which types are told."""
MOST_VALUES = 50
"""Most different values of a column that are listed."""
UNKNOWN = ("NA", "N/A", "n/a", "NULL", "null", "None", "nan", "NaN", "-", "?")
"""Texts that stand for an unknown cell."""
DATES = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y")
CLOCKS = (" %H:%M:%S", " %H:%M", "")
FORMATS = tuple(date + clock for date, clock in product(DATES, CLOCKS))
"""Formats of a time that is not ISO 8601."""
_ZONED = f"{UTC_TIME}|{OFFSET_TIME}"
_ISO = f"{LOCAL_TIME}|{_ZONED}"
_NUMBER = r"-?(0|[1-9]\d*)({}\d+)?"

Kind = Literal["time", "number", "text"]


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Content of one column.

    name     of the user's column
    kind     a time, a number or a text
    unique   whether no two rows have the same value
    full     whether no cell of the sample is unknown
    whole    whether a number has no decimals
    values   value → rows of the sample, the most frequent first; empty where there are more than ``MOST_VALUES``
    format   of a time, as for strptime; empty: ISO 8601
    swapped  whether days and months may be swapped in ``format``
    zoned    whether a time has its zone
    first, last  of the times of all rows
    """

    name: str
    kind: Kind
    unique: bool
    full: bool
    whole: bool = False
    values: Mapping[str, int] = field(default_factory=dict)
    format: str = ""
    swapped: bool = False
    zoned: bool = False
    first: datetime | None = None
    last: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A file, how it is to be read, and the content of its columns."""

    source: Source
    columns: Sequence[Cells]

    def cells(self, name: str) -> Cells:
        """Return a column by name."""
        return next(each for each in self.columns if each.name == name)

    def number(self, value: str) -> float:
        """Return a number of the file."""
        return float(value.replace(self.source.decimal, "."))


def profile(db: duckdb.DuckDBPyConnection, folder: Path, name: str, file: Path) -> Profile:
    """Read the first rows of a CSV or Parquet file; a view of all rows stays in ``db``.

    Args:
        db: database that gets the view of the source.
        folder: that the mapping will lie in.
        name: of the source.
        file: to be read.

    Raises:
        NotFound: there is no such file.
        InvalidInput: it cannot be read, or it has no row.
    """
    try:
        return _profile(db, folder, name, file)
    except duckdb.Error as error:
        raise InvalidInput(f"cannot be read: {error}", field=str(file)) from error


def _profile(db: duckdb.DuckDBPyConnection, folder: Path, name: str, file: Path) -> Profile:
    place = file.resolve()
    source = _source(db, name, place)
    names = open_sources(db, place.parent, [source])[name]
    sample = quoted(f"sample_{name}")
    casts = ", ".join(f"CAST({quoted(each)} AS VARCHAR) AS {quoted(each)}" for each in names)
    db.execute(f"CREATE TABLE {sample} AS SELECT {casts} FROM {view_of(source)} LIMIT {SAMPLE_ROWS}")
    if not db.execute(f"SELECT count(*) FROM {sample}").fetchall()[0][0]:
        raise InvalidInput("has no row", field=str(file))
    null = [""] + [text for text in UNKNOWN if any(_has(db, sample, each, text) for each in names)]
    decimal = _decimal(db, sample, names, null)
    file_in_mapping = os.path.relpath(place, folder.resolve())
    read = replace(source, file=file_in_mapping, null=tuple(null), decimal=decimal)
    return Profile(source=read, columns=[_cells(db, sample, view_of(source), each, null, decimal) for each in names])


def _source(db: duckdb.DuckDBPyConnection, name: str, file: Path) -> Source:
    """Return a file with the delimiter and the encoding that it has."""
    if file.suffix.lower() in (".parquet", ".pq") or not file.exists():
        return Source(name=name, file=str(file))
    with file.open("rb") as opened:
        head = opened.read(1 << 20)
    try:
        head[: head.rfind(b"\n") + 1].decode()
        encoding = "utf-8"
    except UnicodeDecodeError:
        encoding = "latin-1"
    options = f"all_varchar = true, encoding = {literal(encoding)}"
    try:
        ((delimiter,),) = db.execute(f"SELECT Delimiter FROM sniff_csv({literal(str(file))}, {options})").fetchall()
    except duckdb.Error as error:
        raise InvalidInput(f"is not a CSV file: {error}", field=str(file)) from error
    return Source(name=name, file=str(file), delimiter=str(delimiter), encoding=encoding)


def _has(db: duckdb.DuckDBPyConnection, sample: str, name: str, text: str) -> bool:
    query = f"SELECT 1 FROM {sample} WHERE {quoted(name)} = {literal(text)} LIMIT 1"
    return bool(db.execute(query).fetchall())


def _decimal(db: duckdb.DuckDBPyConnection, sample: str, names: Sequence[str], null: Sequence[str]) -> str:
    """Return the sign before decimals: the comma where some column has numbers with it."""
    pattern = _NUMBER.format(",")
    for name in names:
        text = _text(name, null)
        query = f"SELECT bool_and({_matches(text, pattern)}), bool_or(contains({text}, ',')) FROM {sample}"
        if all(db.execute(query).fetchall()[0]):
            return ","
    return "."


def _cells(
    db: duckdb.DuckDBPyConnection, sample: str, view: str, name: str, null: Sequence[str], decimal: str
) -> Cells:
    text, column = _text(name, null), quoted(name)
    point = r"\." if decimal == "." else decimal
    is_number, whole, is_iso, zoned, known, cells = db.execute(
        f"""SELECT bool_and({_matches(text, _NUMBER.format(point))}), bool_and({_matches(text, "-?[0-9]+")}),
            bool_and({_matches(text, _ISO)} AND TRY_CAST({text} AS TIMESTAMPTZ) IS NOT NULL),
            bool_and({_matches(text, _ZONED)}), count(DISTINCT {text}), count(*)
            FROM {sample} WHERE {text} IS NOT NULL"""
    ).fetchall()[0]
    ((rows,),) = db.execute(f"SELECT count(*) FROM {sample}").fetchall()
    unique = known == rows
    if unique:
        ((unique,),) = db.execute(f"SELECT count(DISTINCT {column}) = count(*) FROM {view}").fetchall()
    alike: dict[str, Any] = {"name": name, "unique": unique, "full": cells == rows}
    values: dict[str, int] = {}
    if known <= MOST_VALUES:
        counted = f"SELECT {text} AS v, count(*) FROM {sample} WHERE v IS NOT NULL GROUP BY v ORDER BY 2 DESC, 1"
        values = {str(value): int(rows) for value, rows in db.execute(counted).fetchall()}
    if is_iso:
        first, last = _bounds(db, view, f"TRY_CAST({text} AS TIMESTAMP)")
        return Cells(kind="time", **alike, values=values, zoned=zoned, first=first, last=last)
    if is_number:
        return Cells(kind="number", **alike, whole=whole, values=values)
    fitting = [each for each in _formats_of_one(db, sample, text) if _reads(db, sample, text, each)]
    if not fitting:
        return Cells(kind="text", **alike, values=values)
    first, last = _bounds(db, view, f"try_strptime({text}, {literal(fitting[0])})")
    return Cells(
        kind="time",
        **alike,
        values=values,
        format=fitting[0],
        swapped=len(fitting) > 1,
        first=first,
        last=last,
    )


def _text(name: str, null: Sequence[str]) -> str:
    text = f"trim(CAST({quoted(name)} AS VARCHAR))"
    return f"CASE WHEN {text} NOT IN ({', '.join(map(literal, null))}) THEN {text} END"


def _matches(text: str, pattern: str) -> str:
    return f"regexp_full_match({text}, {literal(pattern)})"


def _formats_of_one(db: duckdb.DuckDBPyConnection, sample: str, text: str) -> list[str]:
    """Return the formats that read the first value: most columns are no times, and that is told by one value."""
    parsed = ", ".join(f"try_strptime({text}, {literal(each)}) IS NOT NULL" for each in FORMATS)
    found = db.execute(f"SELECT {parsed} FROM {sample} WHERE {text} IS NOT NULL LIMIT 1").fetchall()
    return [each for each, reads in zip(FORMATS, found[0], strict=True) if reads] if found else []


def _reads(db: duckdb.DuckDBPyConnection, sample: str, text: str, format: str) -> bool:
    parsed = f"try_strptime({text}, {literal(format)}) IS NOT NULL"
    ((reads,),) = db.execute(f"SELECT bool_and({parsed}) FROM {sample} WHERE {text} IS NOT NULL").fetchall()
    return bool(reads)


def _bounds(db: duckdb.DuckDBPyConnection, view: str, time: str) -> tuple[datetime, datetime]:
    ((first, last),) = db.execute(f"SELECT min({time}), max({time}) FROM {view}").fetchall()
    return first, last
