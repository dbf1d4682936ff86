"""The segments of the decision log: their columns, and their names, which say what rows they hold.

The log is a folder of parquet segments, ``decisions-<first>-<last>.parquet``, ``outcomes-…`` and
``corrections-…``. A segment is written whole or not at all and never changed. Small ones are replaced by a larger one
of the same rows (:mod:`shadowprice.pacing.decision_log.compaction`), so the segments of a folder may overlap.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shadowprice.errors import InvalidTable

Kind = Literal["decisions", "outcomes", "corrections"]
_TIME = pa.timestamp("us", tz="UTC")
SCHEMAS: dict[Kind, pa.Schema] = {
    "decisions": pa.schema(
        [
            ("request_id", pa.string()),
            ("account_id", pa.string()),
            ("side", pa.string()),
            ("level", pa.int32()),
            ("incentive", pa.int64()),
            ("response", pa.float64()),
            ("expected_cost", pa.float64()),
            ("propensity", pa.float64()),
            ("propensities", pa.list_(pa.float64())),
            ("reason", pa.string()),
            ("model_version", pa.string()),
            ("price_version", pa.int64()),
            ("features_at", _TIME),
            ("decided_at", _TIME),
            ("most_units", pa.int64()),
        ]
    ),
    "outcomes": pa.schema(
        [
            ("request_id", pa.string()),
            ("side", pa.string()),
            ("response", pa.float64()),
            ("cost", pa.int64()),
            ("late", pa.bool_()),
            ("observed_at", _TIME),
            ("recorded_at", _TIME),
            ("misdated", pa.bool_()),
        ]
    ),
    "corrections": pa.schema(
        [
            ("source", pa.string()),
            ("event_id", pa.string()),
            ("request_id", pa.string()),
            ("side", pa.string()),
            ("kind", pa.string()),
            ("response", pa.float64()),
            ("cost", pa.int64()),
            ("previous_response", pa.float64()),
            ("previous_cost", pa.int64()),
            ("override", pa.bool_()),
            ("content", pa.string()),
            ("observed_at", _TIME),
            ("recorded_at", _TIME),
            ("misdated", pa.bool_()),
        ]
    ),
}
"""Columns of the segments: what :class:`serving.ledger.store.Decision` and its outcome say."""
ADDED = {"most_units": 1, "misdated": False}
"""Columns that segments of earlier releases do not have, and what their rows mean by that."""
_NAME = re.compile(r"(decisions|outcomes|corrections)-(\d{12})-(\d{12})\.parquet")


@dataclass(frozen=True)
class Segment:
    """A file of rows number ``first`` to ``last``, counted from 1."""

    path: Path
    first: int
    last: int

    @classmethod
    def named(cls, folder: Path, kind: Kind, first: int, last: int) -> Segment:
        """The segment of these rows."""
        return cls(folder / f"{kind}-{first:012d}-{last:012d}.parquet", first, last)


def segments(folder: Path, kind: Kind) -> list[Segment]:
    """The segments of a log in the order of their rows; drafts of an interrupted writer are none."""
    found = []
    for path in folder.glob(f"{kind}-*.parquet"):
        match = _NAME.fullmatch(path.name)
        if match:
            found.append(Segment(path, int(match[2]), int(match[3])))
    return sorted(found, key=lambda segment: (segment.first, segment.last))


def read_segment(segment: Segment, kind: Kind) -> Any:
    """The rows of a segment as a table of :data:`SCHEMAS`.

    Raises:
        FileNotFoundError: it is not there any more: a larger one has its rows.
        InvalidTable: it is damaged, or holds other rows than its name says.
    """
    try:
        table = pq.read_table(segment.path, schema=SCHEMAS[kind])
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
