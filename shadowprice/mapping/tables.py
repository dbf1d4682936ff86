"""Canonical tables of a mapping, checked, with faults in the words of the user's own files."""

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as MappingABC
from functools import partial
from typing import TypeVar

import duckdb
import pandas as pd
import pyarrow as pa

from shadowprice.checks import require
from shadowprice.errors import InvalidInput, InvalidTable, TableProblem
from shadowprice.mapping.arms import refuse_merged
from shadowprice.mapping.description import Mapping
from shadowprice.mapping.faults import MAPPING, unusable
from shadowprice.mapping.opened import ROW, Opened, Part, quoted
from shadowprice.mapping.queries import table_parts, wanted_columns
from shadowprice.mapping.sources import disk_full, open_sources
from shadowprice.tables import Tables, validate_tables
from shadowprice.tables.database import BATCH, empty_database
from shadowprice.tables.schema import CAMPAIGN_TABLES, EVENTS, OPTIONAL, named_columns

Checked = TypeVar("Checked")
Planner = Callable[[duckdb.DuckDBPyConnection, Mapping, MappingABC[str, Opened]], dict[str, list[Part]]]
_MANY = ("must be unique", "the column is missing")
_STRINGS = {pa.string(): pd.StringDtype("pyarrow")}


def map_tables(mapping: Mapping, *, outside: bool = False) -> Tables:
    """Read the user's files as canonical tables, in parts: they may be larger than memory.

    Args:
        mapping: description of the files.
        outside: whether files may lie outside of the mapping's folder and of the working folder.

    Returns:
        The tables; their ``notes`` count the lines of orders that are no outcome.

    Raises:
        NotFound, Unavailable: a file or a database is missing, or there is no disk space left.
        InvalidInput: the mapping names a column that is not there, or a file cannot be read or lies outside.
        InvalidTable: the content breaks the schema, or arms become one level; faults name the user's own files,
            columns, rows and lines.
    """
    require("exposure" in mapping.tables, "data", "is the log of vouchers: name the data set vouchers")
    refuse_merged(mapping)
    notes: dict[str, str] = {}
    planner = partial(table_parts, notes=notes)
    tables = map_checked(mapping, planner, CAMPAIGN_TABLES, validate_tables, outside=outside)
    tables.notes.update(notes)
    return tables


def map_checked(
    mapping: Mapping,
    parts_of: Planner,
    names: Sequence[str],
    check: Callable[[dict[str, Iterator[pd.DataFrame]]], Checked],
    *,
    outside: bool,
) -> Checked:
    """Read the tables ``names`` of a mapping in parts and check them; raises as :func:`map_tables`.

    Args:
        mapping: description of the files.
        parts_of: gives the parts of each table from the opened sources.
        names: tables that are read; those of events may have no part.
        check: raises :class:`InvalidTable`, whose faults are translated into the user's own words.
        outside: as for :func:`map_tables`.
    """
    sources = (part.source for parts in mapping.tables.values() for part in parts if part.source.name)
    tables: dict[str, Iterator[pd.DataFrame]] = {}
    try:
        with empty_database() as db:
            wanted = wanted_columns(db, mapping)
            parts = parts_of(db, mapping, open_sources(db, mapping.folder, sources, wanted, outside=outside))
            for table in names:
                if table in parts:
                    tables[table] = _read(db, parts[table])
                elif table in EVENTS and table not in OPTIONAL:
                    tables[table] = iter([pd.DataFrame({name: [] for name in named_columns(table)}, dtype=object)])
            try:
                return check(tables)
            except InvalidTable as error:
                raise _in_own_words(db, parts, error.problems, mapping) from None
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        full = disk_full(error)
        if full is not None:
            raise full from error
        raise


def _read(db: duckdb.DuckDBPyConnection, parts: Sequence[Part]) -> Iterator[pd.DataFrame]:
    names = dict.fromkeys(name for part in parts for name in part.columns)
    for part in parts:
        # A part that lacks a column of another part does not know it.
        known = {
            name: quoted(name) if name in part.columns else f"CAST(NULL AS VARCHAR) AS {quoted(name)}" for name in names
        }
        columns = ", ".join(known.values())
        try:
            reader = db.cursor().sql(f"SELECT {columns} FROM {part.query}").to_arrow_reader(BATCH)
            batch = None
            for batch in reader:
                yield batch.to_pandas(types_mapper=_STRINGS.get)
            if batch is None:
                yield reader.schema.empty_table().to_pandas(types_mapper=_STRINGS.get)
        # Arrow passes a fault of the query on as an error of its own, or of the system.
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise disk_full(error) or InvalidInput(f"cannot be read: {error}", field=part.source) from error


def _in_own_words(
    db: duckdb.DuckDBPyConnection,
    parts: MappingABC[str, Sequence[Part]],
    problems: Sequence[TableProblem],
    mapping: Mapping,
) -> InvalidTable:
    """Return the faults with the user's own files, columns and rows in the place of the canonical ones."""
    own = [_translated(db, parts.get(problem.table, ()), problem) for problem in problems]
    hints = []
    if any(problem.field == "outcome.request_id" and problem.reason.startswith(_MANY) for problem in problems):
        hints.append("Orders, of which an offer may have several or none, are mapped as the table `order`.")
    if not mapping.timezone and any("time" in problem.reason for problem in own):
        hints.append("Times without a zone need `timezone` in the mapping.")
    if any("is not a time" in problem.reason for problem in own):
        hints.append("Times of another form need a `format`, and numbers a `format` such as seconds or excel.")
    if any("number;" in problem.reason for problem in own):
        hints.append(
            "Numbers with other signs need `decimal` or `thousands` of the source, and amounts their `currency`."
        )
    if empty := next((problem.column for problem in own if "must not be empty" in problem.reason), None):
        hints.append(f"Rows without a value are left out by `where` of the table, such as {quoted(empty)} IS NOT NULL.")
    if any("stands earlier already" in problem.reason for problem in own):
        hints.append("Where whole lines are copies, `awk '!seen[$0]++' FILE > NEW` keeps the first of each.")
    if any("the same side and snapshot_ts" in problem.reason for problem in own):
        hints.append("Keep one row of each account and time; rows of several times need their own snapshot_ts.")
    return unusable(own, hints)


def _translated(db: duckdb.DuckDBPyConnection, parts: Sequence[Part], problem: TableProblem) -> TableProblem:
    if not parts:
        return problem
    part, rows = parts[0], problem.rows
    if len(parts) > 1 and rows:
        sizes = [int(db.execute(f"SELECT count(*) FROM {one.query}").fetchall()[0][0]) for one in parts]
        part, rows = _part_of(parts, sizes, rows)
    own = part.labels.get(problem.column or "")
    if not part.source or (problem.column is not None and not own):
        # A constant, or a column that the mapping lacks: its place is in the mapping.
        return TableProblem(MAPPING, problem.field, problem.reason, (), 0)
    field = problem.table if problem.column is None else problem.field
    reason = f"{problem.reason} [{field}]"
    file, own_rows, lines = _source_rows(db, part, rows)
    return TableProblem(file, own, reason, own_rows, problem.count, lines)


def _part_of(parts: Sequence[Part], sizes: Sequence[int], rows: Sequence[int]) -> tuple[Part, tuple[int, ...]]:
    """Return the part that the first row is in, and the rows that are in it, counted in it."""
    start = 0
    for part, size in zip(parts, sizes, strict=True):
        if rows[0] < start + size:
            return part, tuple(row - start for row in rows if row < start + size)
        start += size
    return parts[-1], tuple(rows)


def _source_rows(
    db: duckdb.DuckDBPyConnection, part: Part, rows: Sequence[int]
) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Return the file that rows of a part come from, and their rows and lines in it.

    There are no rows where the part follows from other tables. Rows of other files than the first are left out.
    """
    numbers = []
    for row in rows:
        ((at,),) = db.execute(f"SELECT {quoted(ROW)} FROM {part.query} LIMIT 1 OFFSET {row}").fetchall() or [(None,)]
        numbers.append(at)
    if part.opened is None or None in numbers or not numbers:
        return part.source, (), ()
    places = [part.opened.at(at) for at in numbers]
    file = places[0][0]
    own = [(row, line) for name, row, line in places if name == file]
    return file, tuple(row for row, _ in own), tuple(line for _, line in own if line is not None)
