"""Steps beside the answers: now, again, at the end, and whatever one of them does."""

import logging
from threading import Event

import pytest

from serving.ledger.background import repeating
from shadowprice.errors import Unavailable

LONG = 3600.0


def test_a_step_is_taken_at_once_and_once_more_at_the_end() -> None:
    taken, first = [], Event()

    def step() -> bool:
        taken.append(len(taken))
        first.set()
        return False

    with repeating(step, LONG, name="step", meanwhile="nothing happens"):
        assert first.wait(10)
        assert taken == [0]
    assert taken == [0, 1]


def test_what_is_left_is_done_without_waiting() -> None:
    left, done = [3], Event()

    def step() -> bool:
        left[0] -= 1
        if left[0] == 0:
            done.set()
        return left[0] > 0

    with repeating(step, LONG, name="step", meanwhile="nothing happens"):
        assert done.wait(10)


@pytest.mark.parametrize("failure", [Unavailable("the disk is full"), ZeroDivisionError("a fault")])
def test_a_step_that_fails_is_logged_and_tried_again(failure: Exception, caplog: pytest.LogCaptureFixture) -> None:
    turns, again = [], Event()

    def step() -> bool:
        turns.append(0)
        if len(turns) == 1:
            raise failure
        again.set()
        return False

    with caplog.at_level(logging.WARNING, "serving"), repeating(step, 0.01, name="step", meanwhile="the ledger wait"):
        assert again.wait(10)
    assert [record.getMessage().startswith("the ledger wait") for record in caplog.records] == [True]
