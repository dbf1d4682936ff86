"""Compaction of the decision log: many small segments become one of the same rows.

Rows are numbered from 1, and a block of a tier is the rows k·size + 1 to (k + 1)·size. When the log has gone beyond a
block, the segments that begin in it are merged into one. So a log of N rows has at most N / 10⁶ large segments and
some hundreds of small ones. Each row is written once more per tier, and a merge reads about a hundred segments.

The large segment is durable before the small ones are removed. An interruption leaves segments that overlap; readers
drop what they read twice, and the next call removes it.
"""

import logging
import time
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from shadowprice.errors import InvalidTable, Unavailable
from shadowprice.files import whole_file
from shadowprice.pacing.decision_log.segments import SCHEMAS, RowKind, Segment, read_segment, segments

logger = logging.getLogger(__name__)
TIERS = (100, 10_000, 1_000_000)
"""Rows of a block of each tier."""
GROUP_ROWS = 50_000
"""Rows in memory at once, beside those of one small segment."""
DRAFT_SECONDS = 86_400.0
"""Age at which a draft belongs to a writer that was killed."""


def compact(folder: Path, kind: RowKind, *, tiers: tuple[int, ...] = TIERS) -> bool:
    """Merge the segments of one block; returns whether there was one, so there may be more.

    Safe beside readers and other writers of the folder. O(rows of the block) time; memory of one small segment.
    A block with a damaged or a missing segment stays as it is and is reported. Removes drafts of killed writers.

    Raises:
        Unavailable: the folder cannot be written; the log stays readable.
    """
    try:
        _remove_drafts(folder, kind)
        kept = _without_contained(folder, kind)
        return any(_merge(folder, kind, run) for run in _runs(kept, tiers))
    except OSError as error:
        raise Unavailable(f"the decision log cannot be compacted: {error}") from error


def _runs(found: list[Segment], tiers: tuple[int, ...]) -> Iterator[list[Segment]]:
    """Segments to merge; the smallest tier comes first, so that a merge reads few files."""
    for size in tiers:
        for block, group in groupby(found, key=lambda segment: (segment.first - 1) // size):
            run = list(group)
            if len(run) > 1 and (found[-1].first - 1) // size > block:
                yield run


def _merge(folder: Path, kind: RowKind, run: list[Segment]) -> bool:
    """Write the segment of the run's rows and remove the run; False where it cannot be read."""
    whole = Segment.named(folder, kind, run[0].first, max(segment.last for segment in run))
    try:
        with whole_file(whole.path, durable=True) as draft:
            _write(draft, kind, _grouped(run, kind))
    except (FileNotFoundError, InvalidTable) as error:
        # A file that went away was merged by another writer.
        logger.warning("segments %s to %s are not merged: %s", run[0].path.name, run[-1].path.name, error)
        return False
    _remove(segment for segment in run if segment.path != whole.path)
    return True


def _write(path: Path, kind: RowKind, tables: Iterable[Any]) -> None:
    with pq.ParquetWriter(path, SCHEMAS[kind], compression="zstd") as writer:
        for table in tables:
            writer.write_table(table)


def _grouped(run: list[Segment], kind: RowKind) -> Iterator[Any]:
    """The rows of a run, each once and in order, some :data:`GROUP_ROWS` at a time."""
    read, held, rows = run[0].first - 1, [], 0
    for segment in run:
        if segment.first > read + 1:
            raise InvalidTable(f"rows {read + 1} to {segment.first - 1} are in no segment", field=str(segment.path))
        if segment.last > read:
            held.append(read_segment(segment, kind).slice(read + 1 - segment.first))
            rows += held[-1].num_rows
            read = segment.last
        if rows >= GROUP_ROWS:
            yield pa.concat_tables(held)
            held, rows = [], 0
    if held:
        yield pa.concat_tables(held)


def _without_contained(folder: Path, kind: RowKind) -> list[Segment]:
    """The segments in the order of their rows; removes those whose rows a sound larger one has."""
    kept: list[Segment] = []
    contained: list[Segment] = []
    # The larger of two that begin together comes first, so what contains a segment is before it.
    for segment in sorted(segments(folder, kind), key=lambda each: (each.first, -each.last)):
        if kept and segment.last <= kept[-1].last and _is_sound(kept[-1]):
            contained.append(segment)
        else:
            kept.append(segment)
    _remove(contained)
    return kept


def _is_sound(segment: Segment) -> bool:
    try:
        return bool(pq.read_metadata(segment.path).num_rows == segment.last - segment.first + 1)
    except (OSError, pa.ArrowException):
        return False


def _remove(found: Iterable[Segment]) -> None:
    for segment in found:
        segment.path.unlink(missing_ok=True)


def _remove_drafts(folder: Path, kind: RowKind) -> None:
    for draft in folder.glob(f".{kind}-*"):
        if time.time() - draft.stat().st_mtime > DRAFT_SECONDS:
            draft.unlink(missing_ok=True)
