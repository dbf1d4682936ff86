"""The stream of one decision log: at least once, in the order of the log, from where the sink has taken it."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge

from serving.stream.cursor import check_cursor, read_cursor, write_cursor
from serving.stream.events import TIMES, encoded, event
from serving.stream.sink import Sink
from shadowprice.errors import InvalidRequest, NotFound
from shadowprice.pacing.decision_log.segments import SCHEMAS, RowKind, segments, tables_after

logger = logging.getLogger("serving")
REPORT_SECONDS = 30.0
KEPT_EVENTS = 100
"""Events after which the cursor is written: single events would wait for the disk."""


@dataclass
class Stream:
    """Sends the rows of a log to a sink.

    log       folder of the decision log
    cursor    file with the rows that the sink has taken
    campaign  name, for events and metrics
    batch     most events of one call; 1 sends each in the structured mode, more a batch
    wait      sleeps for some seconds and returns whether the stream is to end
    """

    log: Path
    sink: Sink
    cursor: Path
    campaign: str
    batch: int
    wait: Callable[[float], bool]
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    oldest: float = field(default=0.0, init=False)
    """Time of the oldest event that is being delivered; 0 where there is none."""

    def __post_init__(self) -> None:
        how: dict[str, Any] = {"labelnames": ("campaign",), "registry": self.registry}
        label = {"campaign": self.campaign}
        self._sent = Counter("shadowprice_stream_events", "events that the sink has taken", **how).labels(**label)
        self._behind = Gauge("shadowprice_stream_behind_rows", "logged rows that the sink has not taken", **how).labels(
            **label
        )
        lag = Gauge("shadowprice_stream_lag_seconds", "age of the oldest event that the sink has not taken", **how)
        lag.labels(**label).set_function(lambda: max(time.time() - self.oldest, 0.0) if self.oldest else 0.0)
        self._reported = time.monotonic()

    def send_new(self) -> int | None:
        """Send all that is logged now, and return the number of events; None where the stream is to end.

        Raises:
            NotFound: there is no log.
            InvalidInput: the cursor's file, or a log that is not the cursor's.
            InvalidTable: the log is damaged.
            InvalidRequest: the sink refuses events; the message says which rows, and what to do.
        """
        if not self.log.is_dir():
            raise NotFound(f"there is no decision log in {self.log}")
        rows = read_cursor(self.cursor)
        # The log has each decision before its outcome. Ends that are read in the other order keep that in the stream.
        logged = {kind: segments(self.log, kind) for kind in reversed(SCHEMAS)}
        ends = {kind: max((segment.last for segment in own), default=0) for kind, own in logged.items()}
        check_cursor(self.cursor, rows, ends)
        sent = kept = 0
        self._show(rows, ends)
        try:
            for kind in SCHEMAS:
                for batch in _batches(self.log, kind, rows[kind], ends[kind], self.batch):
                    self.oldest = batch[0][TIMES[kind]].timestamp()
                    if not self._deliver(kind, rows[kind], batch):
                        return None
                    rows[kind] += len(batch)
                    sent += len(batch)
                    self._sent.inc(len(batch))
                    self._show(rows, ends)
                    if sent - kept >= KEPT_EVENTS:
                        write_cursor(self.cursor, rows)
                        kept = sent
        finally:
            if sent > kept:
                write_cursor(self.cursor, rows)
        self.oldest = 0.0
        return sent

    def _deliver(self, kind: RowKind, before: int, batch: list[Mapping[str, Any]]) -> bool:
        body, content_type = encoded([event(kind, row, self.campaign) for row in batch], self.batch > 1)
        try:
            return self.sink.deliver(body, content_type, wait=self.wait, on_trouble=self._trouble)
        except InvalidRequest as error:
            raise InvalidRequest(
                f"the sink refuses rows {before + 1} to {before + len(batch)} of {kind}: {error}; they and all that "
                "follow are not delivered: mend the sink or the address and start the stream again"
            ) from error

    def _trouble(self, text: str) -> None:
        logger.warning("the sink does not take events, which are sent again: %s", text)

    def _show(self, rows: Mapping[RowKind, int], ends: Mapping[RowKind, int]) -> None:
        behind = sum(ends[kind] - rows[kind] for kind in SCHEMAS)
        self._behind.set(behind)
        if time.monotonic() - self._reported > REPORT_SECONDS:
            self._reported = time.monotonic()
            logger.info("stream: %s rows taken, %s behind", f"{sum(rows.values()):,}", f"{behind:,}")


def _batches(folder: Path, kind: RowKind, read: int, end: int, size: int) -> Iterator[list[Mapping[str, Any]]]:
    """Rows after number ``read`` up to ``end``, some at a time. Memory of a segment and of one batch."""
    rows = (row for table in tables_after(folder, kind, read) for row in _rows(table, size)) if read < end else iter(())
    left = islice(rows, end - read)
    while batch := list(islice(left, size)):
        yield batch


def _rows(table: Any, size: int) -> Iterator[Mapping[str, Any]]:
    for first in range(0, table.num_rows, size):
        yield from table.slice(first, size).to_pylist()
