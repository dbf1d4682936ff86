"""The append-only log: every decision, outcome and correction to parquet, in the order of the ledger.

The ledger database is the outbox: its rows are logged by number, from the end of the newest segment. So a ledger that
is killed between two segments goes on where it was, and no row is lost or written twice. Small segments are merged
later (:mod:`shadowprice.pacing.decision_log.compaction`).
"""

import io
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from serving.http.limits import MAX_SEGMENT_ROWS
from serving.ledger.background import repeating
from serving.ledger.store import Store
from shadowprice.errors import Conflict, Unavailable
from shadowprice.files import write_whole
from shadowprice.pacing.decision_log.compaction import compact
from shadowprice.pacing.decision_log.segments import SCHEMAS, RowKind, Segment, segments

logger = logging.getLogger("serving")
LEASE_SECONDS = 10.0
"""Shortest time that a process keeps the log for itself, longer than a segment takes to write.

A replica that was killed delays the log by this time, or by three intervals of writing."""


@dataclass
class LogWriter:
    """Writes the new rows of the ledger to ``folder``."""

    store: Store
    folder: Path
    rows: int = MAX_SEGMENT_ROWS
    trouble: str | None = field(default=None, init=False)
    """Why the store cannot be the one that was logged; None where it can."""

    def check(self) -> None:
        """Make sure that the store holds all that was logged.

        Raises:
            Conflict: the store went back: it ends before the newest segment.
            Unavailable: the store cannot be read.
        """
        for kind, after in self._read().items():
            self._check_end(kind, after, self._end(kind))

    def write(self) -> int:
        """Log all that is new; returns how many rows.

        Raises:
            Conflict: the store ends before the log.
            Unavailable: the ledger cannot be read, or the folder not written; nothing is half-written.
        """
        # Up to one moment, so that no outcome is logged before its decision and no correction before its outcome.
        totals = self.store.totals()
        counts = {"decisions": totals.requests, "outcomes": totals.outcomes, "corrections": totals.corrected}
        return sum(self._write(kind, after, sum(counts[kind].values())) for kind, after in self._read().items())

    def compact(self) -> bool:
        """Merge small segments of one block; returns whether there may be more to merge.

        Raises:
            Unavailable: the folder cannot be written; the log stays readable.
        """
        return any(compact(self.folder, kind) for kind in SCHEMAS)

    def _read(self) -> dict[RowKind, Callable[[int, int], Sequence[Any]]]:
        return {
            "decisions": self.store.decisions_after,
            "outcomes": self.store.outcomes_after,
            "corrections": self.store.corrections_after,
        }

    def _end(self, kind: RowKind) -> int:
        return max((segment.last for segment in segments(self.folder, kind)), default=0)

    def _check_end(self, kind: RowKind, after: Callable[[int, int], Sequence[Any]], end: int) -> None:
        if end and not after(end - 1, 1):
            self.trouble = (
                f"the ledger's store went back: the decision log {self.folder} has {end} {kind} and the store fewer; "
                "stop the ledger and run `python -m serving.recover` (docs/how-to/restore.md)"
            )
            raise Conflict(self.trouble)

    def _write(self, kind: RowKind, after: Callable[[int, int], Sequence[Any]], last: int) -> int:
        start = end = self._end(kind)
        self._check_end(kind, after, end)
        while end < last and (rows := after(end, min(self.rows, last - end))):
            if not self.store.may_log(LEASE_SECONDS):
                break
            segment = Segment.named(self.folder, kind, end + 1, end + len(rows))
            try:
                write_whole(segment.path, _parquet(kind, rows), durable=True)
            except OSError as error:
                raise Unavailable(f"the decision log cannot be written: {error}") from error
            end = segment.last
        return end - start


def logged(writer: LogWriter, every_seconds: float) -> AbstractContextManager[None]:
    """Write and compact the log now, ``every_seconds`` and at the end, on a thread of its own, until the context ends.

    Rows are written between any two merges. Where several processes share the store, one of them writes.
    """

    def step() -> bool:
        if not writer.store.may_log(max(LEASE_SECONDS, 3 * every_seconds)):
            return False
        writer.write()
        return writer.compact()

    return repeating(step, every_seconds, name="ledger-log", meanwhile="the log is behind the ledger for now")


def _parquet(kind: RowKind, rows: Sequence[Any]) -> bytes:
    schema = SCHEMAS[kind]
    # Times are kept as numbers; a cast of their type gives them their unit.
    columns = [
        pa.array(values, pa.int64()).cast(field.type)
        if pa.types.is_timestamp(field.type)
        else pa.array(values, field.type)
        for field, values in zip(schema, zip(*map(attrgetter(*schema.names), rows), strict=True), strict=True)
    ]
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), buffer, compression="zstd")
    return buffer.getvalue()
