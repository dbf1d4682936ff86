"""Content of a user's file by column: what its cells can be read as, before any mapping describes them."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from shadowprice.checks import require
from shadowprice.mapping.description import Column, Source
from shadowprice.mapping.moments import EXCEL, LOCAL_TIME, OFFSET_TIME, UTC_TIME, time_sql
from shadowprice.mapping.opened import ROW, SPACES, Opened, literal, quoted, trimmed
from shadowprice.mapping.proposal.dates import formats_of, number_format
from shadowprice.mapping.proposal.dialects import propose_source
from shadowprice.mapping.proposal.signs import Signs, currency_in, find_signs
from shadowprice.mapping.sources import open_sources, table_of

SAMPLE_ROWS = 50_000
"""First rows of a file, from which types are told."""
MOST_VALUES = 50
"""Most different values of a column that are listed."""
UNKNOWN = (
    *("NA", "N/A", "n/a", "#N/A", "<NA>", "NaT", "NULL", "Null", "null", "(null)", "[NULL]", "None"),
    *("nan", "NaN", "\\N", "-", "--", "?"),
)
"""Texts that stand for an unknown cell."""
_ZONED = re.compile(f"{UTC_TIME}|{OFFSET_TIME}")
_ISO = re.compile(f"{LOCAL_TIME}|{UTC_TIME}|{OFFSET_TIME}")

ColumnKind = Literal["time", "number", "text"]


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Content of one column.

    name     of the user's column
    kind     a time, a number or a text
    unique   whether no two rows have the same value, apart from copies of whole rows
    full     whether no cell of the sample is unknown
    whole    whether a number has no decimals
    currency sign or code that stands beside the numbers; empty where there is none
    values   value → rows of the sample, the most frequent first; empty where there are more than ``MOST_VALUES``
    format   of a time, as for strptime; empty: ISO 8601
    others   further formats that every cell of a time has
    zoned    whether a time has its zone
    first, last  of the times of all rows
    """

    name: str
    kind: ColumnKind
    unique: bool
    full: bool
    whole: bool = False
    currency: str = ""
    values: Mapping[str, int] = field(default_factory=dict)
    format: str = ""
    others: Sequence[str] = ()
    zoned: bool = False
    first: datetime | None = None
    last: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A file, how it is to be read, and the content of its columns.

    doubt   what only the user can confirm about the source; empty where there is nothing
    unread  columns that a mapping cannot name: their names stand twice, or are empty
    """

    source: Source
    opened: Opened
    columns: Sequence[Cells]
    signs: Signs
    doubt: str = ""
    unread: Sequence[str] = ()

    def cells(self, name: str) -> Cells:
        """Return a column by name."""
        return next(column for column in self.columns if column.name == name)

    def number(self, value: str) -> float:
        """Return a number of the file."""
        return float(self.signs.number(value) or 0)

    def sql(self, name: str) -> str:
        """Return a column as trimmed text, unknown where the file has no value, as SQL over the table of the source."""
        return _text(self.opened, name, self.source.null)


def profiles(db: duckdb.DuckDBPyConnection, folder: Path, files: Mapping[str, Path]) -> dict[str, Profile]:
    """Read CSV or Parquet files into tables of ``db``, and describe their columns by their first rows.

    Args:
        db: an empty database.
        folder: that the mapping will lie in.
        files: by the names of their sources.

    Raises:
        NotFound: there is no such file.
        InvalidInput: one cannot be read, or it has no row.
        InvalidTable: it has rows with more or fewer cells than its header.
    """
    proposals = {name: propose_source(name, file.resolve()) for name, file in files.items()}
    sources = [source for source, _ in proposals.values()]
    opened = open_sources(db, folder, sources, {}, outside=True)
    return {
        name: _profile(db, folder, replace(opened[name], source=source), doubt, files[name])
        for name, (source, doubt) in proposals.items()
    }


def _profile(db: duckdb.DuckDBPyConnection, folder: Path, opened: Opened, doubt: str, file: Path) -> Profile:
    names = [opened.names[place] for place in opened.places_of(None)]
    casts = [f"CAST({opened.sql(name)} AS VARCHAR) AS {quoted(str(place))}" for place, name in enumerate(names)]
    query = f"SELECT {', '.join(casts)} FROM {table_of(opened.source)} ORDER BY {quoted(ROW)} LIMIT {SAMPLE_ROWS}"
    sample = db.sql(query).to_arrow_table() if casts else pa.table({})
    require(sample.num_rows, str(file), "has no row")
    counted = [_counted(column) for column in sample.columns]
    null = ["", *(text for text in UNKNOWN if any(text in texts for texts in counted))]
    known = [{text: rows for text, rows in texts.items() if text not in null} for texts in counted]
    if len(null) > 1:
        doubt = "; ".join(filter(None, [doubt, f"cells with {', '.join(null[1:])} are taken for unknown ones"]))
    # Typed numbers have a point.
    signs = find_signs(known, opened.source.delimiter) if opened.source.delimiter else Signs()
    if signs.doubt:
        kind = "thousands" if signs.thousands else "decimals"
        read = f"{signs.doubt} is read as {signs.number(signs.doubt):f}: its sign is taken for that of {kind}"
        doubt = f"{doubt}; {read}" if doubt else read
    where = os.path.relpath(file.resolve(), folder.resolve())
    source = replace(opened.source, file=where, null=tuple(null), decimal=signs.decimal, thousands=signs.thousands)
    different = sample.group_by(sample.column_names).aggregate([]).num_rows
    if copies := sample.num_rows - different:
        repeated = f"{copies:,} rows are copies of earlier ones: remove them unless each counts"
        doubt = f"{doubt}; {repeated}" if doubt else repeated
    columns = [
        _cells(db, opened, name, values, (sample.num_rows, different), source, signs)
        for name, values in zip(names, known, strict=True)
    ]
    unread = [name or "a column without a name" for name in dict.fromkeys(opened.names) if name not in names]
    return Profile(source=source, opened=opened, columns=columns, signs=signs, doubt=doubt, unread=unread)


def _counted(column: pa.ChunkedArray) -> dict[str, int]:
    """Return text → rows, the most frequent first, without the spaces around texts and without unknown cells."""
    counted = pc.value_counts(pc.utf8_trim(column.drop_null(), SPACES)).to_pylist()
    counts = {row["values"]: row["counts"] for row in counted if row["values"]}
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))


def _cells(
    db: duckdb.DuckDBPyConnection,
    opened: Opened,
    name: str,
    values: Mapping[str, int],
    rows: tuple[int, int],
    source: Source,
    signs: Signs,
) -> Cells:
    """Describe a column; ``rows`` are those of the sample, and the different ones among them."""
    known = sum(values.values())
    table, column = table_of(source), opened.sql(name)
    unique = len(values) == rows[1]
    if unique:
        every = f"SELECT DISTINCT * EXCLUDE ({quoted(ROW)}) FROM {table}" if rows[0] > rows[1] else f"FROM {table}"
        different = f"(SELECT count(*) FROM ({every}))"
        ((unique,),) = db.execute(f"SELECT count(DISTINCT {column}) = {different} FROM {table}").fetchall()
    alike: dict[str, Any] = {"name": name, "unique": unique, "full": known == rows[0]}
    listed = values if len(values) <= MOST_VALUES else {}
    text = _text(opened, name, source.null)
    if not values:
        return Cells(kind="text", **alike)
    if all(map(_ISO.fullmatch, values)) and _read_as(db, values, f"TRY_CAST({_unspaced('v')} AS TIMESTAMPTZ)"):
        first, last = _bounds(db, table, f"TRY_CAST({_unspaced(text)} AS TIMESTAMP)")
        zoned = all(map(_ZONED.fullmatch, values))
        return Cells(kind="time", **alike, values=listed, zoned=zoned, first=first, last=last)
    numbers = [signs.number(value) for value in values]
    if None not in numbers:
        counted = [number for number in numbers if number is not None]
        whole = all(number == number.to_integral_value() for number in counted)
        if format := number_format(name, counted):
            read = time_sql(text, Column(format=format, timezone="UTC"), "")
            first, last = _bounds(db, table, f"TRY_CAST(rtrim({read}, 'Z') AS TIMESTAMP)")
            return Cells(kind="time", **alike, format=format, zoned=format != EXCEL, first=first, last=last)
        return Cells(kind="number", **alike, values=listed, whole=whole, currency=currency_in(values))
    fitting = [
        pattern for pattern in formats_of(values) if _read_as(db, values, f"try_strptime(v, {literal(pattern)})")
    ]
    if not fitting:
        return Cells(kind="text", **alike, values=listed)
    first, last = _bounds(db, table, f"try_strptime({text}, {literal(fitting[0])})")
    format, *others = fitting
    return Cells(kind="time", **alike, values=listed, format=format, others=others, first=first, last=last)


def _text(opened: Opened, name: str, null: Sequence[str]) -> str:
    text = trimmed(f"CAST({opened.sql(name)} AS VARCHAR)")
    return f"CASE WHEN {text} NOT IN ({', '.join(map(literal, null))}) THEN {text} END"


def _read_as(db: duckdb.DuckDBPyConnection, values: Iterable[str], time: str) -> bool:
    """Return whether each value is a time by the SQL of ``v``."""
    ((every,),) = db.execute(f"SELECT bool_and({time} IS NOT NULL) FROM unnest(?) AS t(v)", [list(values)]).fetchall()
    return bool(every)


def _unspaced(time: str) -> str:
    """Return a time without the space before its offset, with which it cannot be cast."""
    return f"regexp_replace({time}, ' +([+-])', '\\1')"


def _bounds(db: duckdb.DuckDBPyConnection, table: str, time: str) -> tuple[datetime, datetime]:
    ((first, last),) = db.execute(f"SELECT min({time}), max({time}) FROM {table}").fetchall()
    return first, last
