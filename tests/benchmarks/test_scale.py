"""The benchmark of the whole loop: what its tables and its simulation say of known costs."""

import pytest

from benchmarks import cluster, scale
from benchmarks.cluster import Cost, shared_seconds


def step(processor: float, failed: str = "") -> dict[str, object]:
    return {"seconds": 2 * processor, "processor": processor, "gib": processor / 10, "bytes": 1e6, "failed": failed}


RESULTS = {
    "scale": {
        "cells": {
            "prepare 1000": {"found": step(2.0)},
            "train 1000": {"found": step(5.0)},
            "prepare 10000": {"found": step(20.0)},
            "train 10000": {"found": step(5.0)},
            "prepare 100000": {"found": step(7.0, "out of memory")},
        }
    }
}


def test_the_table_tells_growth_total_and_failure() -> None:
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in scale.table(RESULTS).splitlines()]
    assert ["10,000", "prepare", "40.0", "20.0", "2.00", "1", "1.00"] in rows
    assert ["10,000", "train", "10.0", "5.0", "0.50", "1", "0.00"] in rows
    assert next(row for row in rows[5:] if "**all**" in row)[:6] == ["10,000", "**all**", "50.0", "25.0", "2.00", "2"]
    assert "out of memory" in rows[-2]


def test_a_cost_is_the_line_through_the_two_largest_sizes() -> None:
    cost = Cost.through({10: 100.0, 1_000: 3.0, 2_000: 5.0})
    assert (cost.fixed, cost.each) == pytest.approx((1.0, 0.002))
    assert Cost.through({1_000: 5.0, 2_000: 4.0}) == Cost(4.0, 0.0)


def test_shards_take_no_less_than_the_work_and_no_more_than_list_scheduling(monkeypatch) -> None:
    cost, accounts, workers = Cost(0.0, 1e-3), 64_000_000, 10
    monkeypatch.setattr(cluster, "LOST", 0.0)
    monkeypatch.setattr(cluster, "SPREAD", 0.0)
    shard, shards = 1e-3 * cluster.SHARD_ACCOUNTS, 64
    # Equal shards: the fullest worker has ⌈64 / 10⌉ of them.
    assert shared_seconds(cost, accounts, workers) == pytest.approx(shard * 7)
    assert shared_seconds(cost, accounts, 1) == pytest.approx(shard * shards)
    monkeypatch.setattr(cluster, "SPREAD", 0.2)
    monkeypatch.setattr(cluster, "LOST", 0.5)
    # A shard that is lost every second time takes twice as long on average.
    assert shared_seconds(cost, accounts, 1) == pytest.approx(2 * shard * shards, rel=0.1)


def test_the_simulation_reads_the_two_largest_complete_sizes() -> None:
    text = scale.ahead(RESULTS)
    prepare = next(line for line in text.splitlines() if "prepare" in line)
    assert "no" in prepare
    assert len(text.splitlines()) == 4
