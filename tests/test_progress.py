"""Progress: what a log shows, estimates of the time left, and the lines of a step under the pipeline runner."""

import doctest
import io
import re

import pytest

from pipelines.local.step_progress import PROGRESS, StepProgress
from shadowprice import progress
from shadowprice.progress import ProgressBar, Stages, duration

pytestmark = pytest.mark.fast


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_the_examples_hold() -> None:
    assert doctest.testmod(progress).failed == 0


def test_the_estimate_is_by_the_units_done_here(clock) -> None:
    bar = ProgressBar("train", 100, "epoch")
    clock[0] += 10
    bar.advance(20, "loss 0.5")
    assert bar.text() == "train: 20 of 100 epochs, 10 s so far, about 40 s left (loss 0.5)"


def test_what_an_earlier_run_did_does_not_count_as_quick_work(clock) -> None:
    bar = ProgressBar("train", 100, "epoch")
    clock[0] += 2
    bar.reach(80)
    clock[0] += 2
    bar.reach(81)
    assert bar.text() == "train: 81 of 100 epochs, 4 s so far, about 38 s left"


def test_an_epoch_says_how_many_there_are_at_most(clock) -> None:
    bar = ProgressBar("train", 400, "epoch")
    clock[0] += 2
    bar.epoch({"epoch": 1.0, "epochs": 100.0, "validation_loss": 0.7})
    assert bar.text() == "train: 2 of 100 epochs, 2 s so far (validation 0.7000)"


def test_the_estimate_counts_down_while_a_unit_takes_long(clock) -> None:
    bar = ProgressBar("train", 4, "epoch")
    clock[0] += 10
    bar.advance()
    clock[0] += 6
    assert "16 s so far, about 24 s left" in bar.text()
    # A unit that takes longer than those before says that the next ones may as well.
    clock[0] += 60
    assert "76 s so far, about 2 min left" in bar.text()
    bar.advance(2)
    clock[0] += 100
    assert "about 0 s left" in bar.text()


def test_the_estimate_counts_in_units_where_many_are_done_at_a_time(clock) -> None:
    bar = ProgressBar("publish", 10_000, "row")
    for _ in range(2):
        clock[0] += 3
        bar.advance(1000)
    clock[0] += 2
    assert "8 s so far, about 22 s left" in bar.text()
    clock[0] += 10
    assert "18 s so far, about 84 s left" in bar.text()


def test_a_log_gets_a_line_now_and_then_and_short_work_none(monkeypatch) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.02)
    log = io.StringIO()
    with ProgressBar("copy", 2, "row", stream=log) as bar:
        bar.advance(2)
        bar._ended.wait(0.1)
    lines = log.getvalue().splitlines()
    assert len(lines) >= 2
    assert all(PROGRESS.search(line) for line in lines)
    monkeypatch.setattr(progress, "EVERY", 5.0)
    log = io.StringIO()
    with ProgressBar("copy", 2, "row", stream=log) as bar:
        bar.advance(2)
    assert log.getvalue() == ""


def test_stages_are_counted_when_the_next_one_begins() -> None:
    with Stages("featurize", 3, shown=False) as stage:
        stage("read")
        assert (stage.done, stage.note) == (0, "read")
        stage("write")
        assert (stage.done, stage.note) == (1, "write")


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0 s"), (119.4, "119 s"), (120, "2 min"), (7199, "2 h 00 min"), (9000, "2 h 30 min")]
)
def test_durations_in_words(seconds, words) -> None:
    assert duration(seconds) == words


def test_a_step_shows_its_own_progress_or_the_time_so_far(monkeypatch, capsys) -> None:
    monkeypatch.setattr("pipelines.local.step_progress.EVERY", 0.02)
    step = StepProgress("  train: prepare", usual=60.0)
    step._ended.wait(0.1)
    step.told("prepare: 1 of 2 stages, 6 s so far, about 6 s left (write)")
    assert step.end("success") >= 0.1
    step.end()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "  train: prepare …"
    assert re.fullmatch(r"  train: prepare: 0 s so far, about 60 s left by the last run", lines[1])
    assert "  train: prepare: prepare: 1 of 2 stages, 6 s so far, about 6 s left (write)" in lines
    assert re.fullmatch(r"  train: prepare success in 0\.\d s", lines[-1])
