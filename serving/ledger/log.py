"""The append-only log: every decision and outcome to parquet, in the order of the books.

The books are the outbox: what they hold is logged, by number, from where the newest segment ends. So a
ledger that is killed between two segments goes on where it was, and nothing is lost or made up.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from serving.ledger.background import repeating
from serving.ledger.store import Store
from shadowprice.errors import Unavailable
from shadowprice.files import write_whole
from shadowprice.pacing.segments import SCHEMAS, Kind, Segment, segments

logger = logging.getLogger("serving")
ROWS = 50_000
"""Most rows of one segment."""


@dataclass
class LogWriter:
    """Writes what is new in the books to ``folder``."""

    store: Store
    folder: Path
    rows: int = ROWS

    def write(self) -> int:
        """Log all that is new; returns how many rows.

        Raises:
            Unavailable: the books cannot be read, or the folder not written; nothing is half-written.
        """
        read: dict[Kind, Callable[[int, int], Sequence[Any]]] = {
            "decisions": self.store.decisions_after,
            "outcomes": self.store.outcomes_after,
        }
        return sum(self._write(kind, after) for kind, after in read.items())

    def _write(self, kind: Kind, after: Callable[[int, int], Sequence[Any]]) -> int:
        existing = segments(self.folder, kind)
        start = end = max((segment.last for segment in existing), default=0)
        while rows := after(end, self.rows):
            segment = Segment.named(self.folder, kind, end + 1, end + len(rows))
            try:
                write_whole(segment.path, _parquet(kind, rows), durable=True)
            except OSError as error:
                raise Unavailable(f"the decision log cannot be written: {error}") from error
            end = segment.last
        return end - start


def logged(writer: LogWriter, every_seconds: float) -> AbstractContextManager[None]:
    """Write the log now, ``every_seconds`` and at the end, on a thread of its own, until the context ends."""

    def step() -> bool:
        writer.write()
        return False

    return repeating(step, every_seconds, name="ledger-log", meanwhile="the log is behind the books for now")


def _parquet(kind: Kind, rows: Sequence[Any]) -> bytes:
    schema = SCHEMAS[kind]
    # Times are kept as numbers; a cast of their type gives them their unit.
    columns = [
        pa.array([getattr(row, field.name) for row in rows], pa.int64()).cast(field.type)
        if pa.types.is_timestamp(field.type)
        else pa.array([getattr(row, field.name) for row in rows], field.type)
        for field in schema
    ]
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), buffer, compression="zstd")
    return buffer.getvalue()
