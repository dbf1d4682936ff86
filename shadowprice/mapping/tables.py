"""Canonical tables of a mapping, checked, with faults in the words of the user's own files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as MappingABC

import duckdb
import pandas as pd
import pyarrow as pa

from shadowprice.errors import InvalidInput, InvalidTable, TableProblem
from shadowprice.mapping.arms import refuse_merged
from shadowprice.mapping.description import Mapping
from shadowprice.mapping.queries import Part, table_parts
from shadowprice.mapping.sources import ROW, open_sources, quoted
from shadowprice.tables import Tables, validate_tables
from shadowprice.tables.database import BATCH, empty_database
from shadowprice.tables.problems import SHOWN_PROBLEMS
from shadowprice.tables.schema import CAMPAIGN_TABLES, EVENTS, OPTIONAL, named_columns

MAPPING = "the mapping"
_STRINGS = {pa.string(): pd.StringDtype("pyarrow")}


def map_tables(mapping: Mapping) -> Tables:
    """Read the user's files as canonical tables, in parts: they may be larger than memory.

    Raises:
        NotFound, Unavailable: a file or a database is missing.
        InvalidInput: the mapping names a column that is not there, or a file cannot be read.
        InvalidTable: the content breaks the schema, or arms become one level; faults name the user's own files, columns
            and rows.
    """
    refuse_merged(mapping)
    with empty_database() as db:
        sources = (part.source for parts in mapping.tables.values() for part in parts if part.source.name)
        parts = table_parts(db, mapping, open_sources(db, mapping.folder, sources))
        tables: dict[str, Iterator[pd.DataFrame]] = {
            table: _read(db, parts[table]) for table in CAMPAIGN_TABLES if table in parts
        }
        for table in CAMPAIGN_TABLES:
            if table not in tables and table in EVENTS and table not in OPTIONAL:
                tables[table] = iter([pd.DataFrame({name: [] for name in named_columns(table)}, dtype=object)])
        try:
            return validate_tables(tables)
        except InvalidTable as error:
            raise _in_own_words(db, parts, error.problems, bool(mapping.timezone)) from None


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
            raise InvalidInput(f"cannot be read: {error}", field=part.source) from error


def _in_own_words(
    db: duckdb.DuckDBPyConnection, parts: MappingABC[str, Sequence[Part]], problems: Sequence[TableProblem], zone: bool
) -> InvalidTable:
    """Return the faults with the user's own files, columns and rows in the place of the canonical ones."""
    own = [_translated(db, parts.get(problem.table, ()), problem) for problem in problems]
    lines = [f"  {_place(problem)}: {problem.detail}" for problem in own[:SHOWN_PROBLEMS]]
    if len(own) > SHOWN_PROBLEMS:
        lines.append(f"  … and {len(own) - SHOWN_PROBLEMS} more")
    if not zone and any("time" in problem.reason for problem in own):
        lines.append("  Times without a zone need `timezone` in the mapping, and those of another form a `format`.")
    count = "1 fault" if len(own) == 1 else f"{len(own)} faults"
    head = f"the files cannot be used, {count} (rows are counted from 0, after the header):"
    return InvalidTable("\n".join([head, *lines]), problems=own)


def _translated(db: duckdb.DuckDBPyConnection, parts: Sequence[Part], problem: TableProblem) -> TableProblem:
    if not parts:
        return problem
    part, rows = parts[0], problem.rows
    if len(parts) > 1 and rows:
        sizes = [_count(db, each) for each in parts]
        part, rows = _part_of(parts, sizes, rows)
    own = part.labels.get(problem.column or "")
    if problem.column is None and part.source:
        reason = f"{problem.reason} [{problem.table}]"
        return TableProblem(part.source, None, reason, _source_rows(db, part, rows), problem.count)
    if not own:
        # A constant, or a column that the mapping lacks: its place is in the mapping.
        return TableProblem(MAPPING, problem.field, problem.reason, (), 0)
    reason = f"{problem.reason} [{problem.field}]"
    return TableProblem(part.source, own, reason, _source_rows(db, part, rows), problem.count)


def _place(problem: TableProblem) -> str:
    if problem.table == MAPPING:
        return f"{MAPPING}, {problem.column}"
    return problem.table if problem.column is None else f"{problem.table}, column {problem.column!r}"


def _part_of(parts: Sequence[Part], sizes: Sequence[int], rows: Sequence[int]) -> tuple[Part, tuple[int, ...]]:
    """Return the part that the first row is in, and the rows that are in it, counted in it."""
    start = 0
    for part, size in zip(parts, sizes, strict=True):
        if rows[0] < start + size:
            return part, tuple(row - start for row in rows if row < start + size)
        start += size
    return parts[-1], tuple(rows)


def _count(db: duckdb.DuckDBPyConnection, part: Part) -> int:
    return int(db.execute(f"SELECT count(*) FROM {part.query}").fetchall()[0][0])


def _source_rows(db: duckdb.DuckDBPyConnection, part: Part, rows: Sequence[int]) -> tuple[int, ...]:
    """Return the rows of the source that rows of a part come from; none where the part follows from other tables."""
    found = []
    for row in rows:
        ((at,),) = db.execute(f"SELECT {quoted(ROW)} FROM {part.query} LIMIT 1 OFFSET {row}").fetchall() or [(None,)]
        found.append(at)
    return () if None in found else tuple(found)
