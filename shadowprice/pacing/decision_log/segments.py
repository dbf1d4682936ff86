"""Segments of the decision log: their columns, and their names, which state the rows they hold.

The log is a folder of parquet segments, ``decisions-<first>-<last>.parquet``, ``outcomes-…`` and
``corrections-…``. A segment is written whole or not at all and never changed. Small ones are replaced by a larger one
of the same rows (:mod:`shadowprice.pacing.decision_log.compaction`), so the segments of a folder may overlap.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shadowprice.errors import InvalidTable
from shadowprice.pacing.decision_log.records import REQUIRED, Column, CorrectionRow, Decision, OutcomeRow, columns

RowKind = Literal["decisions", "outcomes", "corrections"]
RECORDS: dict[RowKind, type] = {"decisions": Decision, "outcomes": OutcomeRow, "corrections": CorrectionRow}
_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_(), tuple: pa.list_(pa.float64())}


def schema(record: type) -> pa.Schema:
    """Return the columns of the log of a record class."""
    return pa.schema([(column.name, _type(column)) for column in columns(record)])


def _type(column: Column) -> pa.DataType:
    if column.field.time:
        return pa.timestamp("us", tz="UTC")
    return pa.int32() if column.field.bits == 32 else _TYPES[column.type]


SCHEMAS: dict[RowKind, pa.Schema] = {kind: schema(record) for kind, record in RECORDS.items()}
"""Columns of the segments."""
ADDED = {
    column.name: column.earlier
    for record in RECORDS.values()
    for column in columns(record)
    if column.earlier is not REQUIRED and column.earlier is not None
}
"""Columns that a segment from before its field existed may lack, and their values there."""
ATTEMPTS = 5
"""Number of listings of the folder to find a segment that was replaced meanwhile."""
_NAME = re.compile(r"(decisions|outcomes|corrections)-(\d{12})-(\d{12})\.parquet")


@dataclass(frozen=True)
class Segment:
    """A file of rows number ``first`` to ``last``, counted from 1."""

    path: Path
    first: int
    last: int

    @classmethod
    def named(cls, folder: Path, kind: RowKind, first: int, last: int) -> Segment:
        """The segment of these rows."""
        return cls(folder / f"{kind}-{first:012d}-{last:012d}.parquet", first, last)


def segments(folder: Path, kind: RowKind) -> list[Segment]:
    """Return the segments of a log in the order of their rows, without drafts of an interrupted writer."""
    listed = []
    for path in folder.glob(f"{kind}-*.parquet"):
        match = _NAME.fullmatch(path.name)
        if match:
            listed.append(Segment(path, int(match[2]), int(match[3])))
    return sorted(listed, key=lambda segment: (segment.first, segment.last))


def read_segment(segment: Segment, kind: RowKind, names: Sequence[str] | None = None) -> Any:
    """The rows of a segment as a table of :data:`SCHEMAS`, or of some columns of it.

    Raises:
        FileNotFoundError: it is not there any more: a larger one has its rows.
        InvalidTable: it is damaged, or holds other rows than its name states.
    """
    try:
        table = pq.read_table(segment.path, schema=SCHEMAS[kind], columns=None if names is None else list(names))
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise InvalidTable(f"cannot be read: {error}", field=str(segment.path)) from error
    if table.num_rows != segment.last - segment.first + 1:
        raise InvalidTable(f"holds {table.num_rows} rows, not those it is named by", field=str(segment.path))
    for name in ADDED.keys() & set(table.column_names):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.schema.field(place), pc.fill_null(table[name], ADDED[name]))
    return table


def tables_after(folder: Path, kind: RowKind, read: int, names: Sequence[str] | None = None) -> Iterator[Any]:
    """Yield the rows after number ``read`` in order, a table for each segment, each row once.

    Raises:
        InvalidTable: a segment is missing between others, is damaged, or holds other rows than its name states.
    """
    attempts = ATTEMPTS
    while True:
        try:
            for segment in segments(folder, kind):
                if segment.first > read + 1:
                    missing = f"rows {read + 1} to {segment.first - 1} are in no segment"
                    raise InvalidTable(missing, field=f"{folder}/{kind}")
                if segment.last > read:
                    table = read_segment(segment, kind, names).slice(read + 1 - segment.first)
                    read, attempts = segment.last, ATTEMPTS
                    yield table
            return
        except (FileNotFoundError, InvalidTable) as error:
            # A listing of the folder is not of one moment: a hole may be a segment that is being replaced.
            attempts -= 1
            if not attempts:
                raise InvalidTable(str(error)) from error
