"""Jobs in turn: the order of their pieces, whose time is counted, and what happens when one fails."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from multiprocessing import active_children
from pathlib import Path

import pytest

from benchmarks.turns import Job, in_turns


def test_pieces_run_in_turn_and_count_their_own_time_alone(tmp_path: Path) -> None:
    told = tmp_path / "told"

    def job(name: str, seconds: float) -> Job:
        def run(end: Callable[[object], None]) -> None:
            for piece in range(4):
                with told.open("a") as file:
                    file.write(f"{name}{piece} ")
                if piece == 3:
                    return
                until = time.thread_time() + seconds
                while time.thread_time() < until:
                    pass
                end(piece)

        return run

    found = in_turns({"short": job("short", 0.01), "long": job("long", 0.03)})
    assert told.read_text().split() == [f"{name}{piece}" for piece in range(4) for name in ("short", "long")]
    assert [len(found[name]) for name in ("short", "long")] == [3, 3]
    assert all(0.01 <= each.processor < 0.03 for each in found["short"])
    assert all(0.03 <= each.processor < 0.06 for each in found["long"])
    assert all(each.processor - 1e-3 <= each.clock for took in found.values() for each in took)


def test_waiting_counts_by_the_clock_alone() -> None:
    def waits(end: Callable[[object], None]) -> None:
        time.sleep(0.05)
        end(0)

    ((processor, clock),) = in_turns({"waits": waits})["waits"]
    assert processor < 0.04 < clock


def test_a_job_that_fails_ends_all_and_is_told() -> None:
    def fails(end: Callable[[object], None]) -> None:
        end(0)
        raise ValueError("no")

    def goes_on(end: Callable[[object], None]) -> None:
        while True:
            end(0)

    with pytest.raises(RuntimeError, match="the job 'fails' failed: ValueError: no"):
        in_turns({"fails": fails, "goes on": goes_on})
    assert not active_children()


def test_a_job_that_dies_is_told() -> None:
    def dies(end: Callable[[object], None]) -> None:
        end(0)
        os._exit(3)

    with pytest.raises(RuntimeError, match="the job 'dies' ended without a word"):
        in_turns({"dies": dies})
