"""Compaction of the decision log: the same rows in fewer files, whatever interrupts it."""

import os
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shadowprice.errors import InvalidTable, Unavailable
from shadowprice.pacing.decision_log import compaction
from shadowprice.pacing.decision_log.compaction import compact
from shadowprice.pacing.decision_log.segments import SCHEMAS, Segment, segments
from shadowprice.pacing.decision_log.served import read_log

TIERS = (4, 16, 64)
TIME = pd.Timestamp("2026-03-01", tz="UTC")


def write(folder, first, last):
    rows = range(first, last + 1)
    frame = pd.DataFrame(
        {
            "request_id": [f"r{row}" for row in rows],
            "side": "customer",
            "response": 1.0,
            "cost": list(rows),
            "late": False,
            "observed_at": TIME,
            "recorded_at": TIME,
        }
    )
    segment = Segment.named(folder, "outcomes", first, last)
    # A segment may lack the newest columns.
    schema = pa.schema([field for field in SCHEMAS["outcomes"] if field.name in frame])
    pq.write_table(pa.Table.from_pandas(frame, schema, preserve_index=False), segment.path)
    return segment


def costs(folder):
    return read_log(folder).outcomes["cost"].tolist()


def names(folder):
    return [(segment.first, segment.last) for segment in segments(folder, "outcomes")]


def test_a_log_of_any_length_has_few_segments_and_the_same_rows(tmp_path):
    rng, end, merged = np.random.default_rng(0), 0, 0
    while end < 600:
        last = end + int(rng.choice([1, 1, 1, 2, 7, 20]))
        write(tmp_path, end + 1, last)
        end = last
        while compact(tmp_path, "outcomes", tiers=TIERS):
            merged += 1
        assert costs(tmp_path) == list(range(1, end + 1))
        # Per tier as many as fit the block that is being filled, and one for each block of the largest that is full.
        assert len(names(tmp_path)) <= end // 64 + 3 * 4 + 1
    assert merged > 60
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_segments_of_fifteen_seconds_stay_below_some_hundred():
    """The bound of the docs, from names alone; a million rows are passed on the way."""
    found = []
    for number in range(22_000):
        found.append(Segment.named(Path("log"), "decisions", 48 * number + 1, 48 * (number + 1)))
        while run := next(compaction._runs(found, compaction.TIERS), None):
            at = found.index(run[0])
            found[at : at + len(run)] = [Segment.named(Path("log"), "decisions", run[0].first, run[-1].last)]
        assert len(found) <= found[-1].last // 1_000_000 + 300


def test_a_killed_merge_leaves_the_log_readable_and_is_finished_by_the_next(tmp_path, monkeypatch):
    for row in range(1, 6):
        write(tmp_path, row, row)
    with monkeypatch.context() as patch:
        patch.setattr(compaction, "_remove", lambda _: None)
        assert compact(tmp_path, "outcomes", tiers=TIERS)
    assert names(tmp_path) == [(1, 1), (1, 4), (2, 2), (3, 3), (4, 4), (5, 5)]
    assert costs(tmp_path) == [1, 2, 3, 4, 5]
    # Killed while removing: any of the small ones may be left.
    (tmp_path / segments(tmp_path, "outcomes")[3].path.name).unlink()
    assert costs(tmp_path) == [1, 2, 3, 4, 5]
    assert not compact(tmp_path, "outcomes", tiers=TIERS)
    assert names(tmp_path) == [(1, 4), (5, 5)]
    assert costs(tmp_path) == [1, 2, 3, 4, 5]


def test_small_segments_outlive_a_large_one_that_is_damaged(tmp_path):
    for row in range(1, 6):
        write(tmp_path, row, row)
    Segment.named(tmp_path, "outcomes", 1, 4).path.write_bytes(b"PAR1")
    assert not compact(tmp_path, "outcomes", tiers=TIERS)
    assert names(tmp_path) == [(1, 1), (1, 4), (2, 2), (3, 3), (4, 4), (5, 5)]
    with pytest.raises(InvalidTable, match="000000000004"):
        read_log(tmp_path)
    Segment.named(tmp_path, "outcomes", 1, 4).path.unlink()
    assert costs(tmp_path) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("fault", ["damaged", "missing"])
def test_a_block_with_a_fault_is_left_alone_and_others_are_merged(tmp_path, fault, caplog):
    for row in range(1, 14):
        write(tmp_path, row, row)
    bad = segments(tmp_path, "outcomes")[5]
    if fault == "damaged":
        bad.path.write_bytes(b"PAR1")
    else:
        bad.path.unlink()
    while compact(tmp_path, "outcomes", tiers=TIERS):
        pass
    left = [first for first in (5, 6, 7, 8) if fault == "damaged" or first != 6]
    assert names(tmp_path) == [(1, 4), *((row, row) for row in left), (9, 12), (13, 13)]
    assert "not merged" in caplog.text
    with pytest.raises(InvalidTable):
        read_log(tmp_path)


def test_overlapping_segments_are_merged_to_each_row_once(tmp_path):
    write(tmp_path, 1, 3)
    write(tmp_path, 2, 6)
    write(tmp_path, 7, 20)
    while compact(tmp_path, "outcomes", tiers=TIERS):
        pass
    assert costs(tmp_path) == list(range(1, 21))
    assert pq.read_table(tmp_path / "outcomes-000000000001-000000000006.parquet").num_rows == 6


def test_a_reader_that_is_overtaken_by_a_merge_finds_every_row(tmp_path, monkeypatch):
    for row in range(1, 6):
        write(tmp_path, row, row)
    listed = segments(tmp_path, "outcomes")
    while compact(tmp_path, "outcomes", tiers=TIERS):
        pass
    answers = iter([listed])
    monkeypatch.setattr(
        "shadowprice.pacing.decision_log.segments.segments",
        lambda folder, kind: next(answers, None) or segments(folder, kind) if kind == "outcomes" else [],
    )
    assert costs(tmp_path) == [1, 2, 3, 4, 5]


def test_a_merge_that_cannot_be_written_changes_nothing(tmp_path, monkeypatch):
    for row in range(1, 6):
        write(tmp_path, row, row)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compaction.pq, "ParquetWriter", full)
    with pytest.raises(Unavailable, match="cannot be compacted"):
        compact(tmp_path, "outcomes", tiers=TIERS)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        segment.path.name for segment in segments(tmp_path, "outcomes")
    ]
    assert costs(tmp_path) == [1, 2, 3, 4, 5]


def test_drafts_of_killed_writers_are_removed_after_a_day(tmp_path):
    write(tmp_path, 1, 1)
    young, old = (tmp_path / f".outcomes-000000000002-00000000000{number}.parquet.x" for number in (3, 4))
    for draft in (young, old):
        draft.write_bytes(b"half")
    yesterday = time.time() - 2 * compaction.DRAFT_SECONDS
    os.utime(old, (yesterday, yesterday))
    compact(tmp_path, "outcomes")
    assert young.exists()
    assert not old.exists()
