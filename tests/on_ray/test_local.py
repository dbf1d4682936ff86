"""Starting Ray where its processes are slow: a stand-in for Ray fails as Ray does, so that no minute is spent on it."""

import os
import tempfile
from pathlib import Path

import pytest

from shadowprice.errors import Unavailable
from shadowprice.on_ray.local import ATTEMPTS, join_ray, start_ray

SLOW = "The current node timed out during startup. This could happen because the GCS has become overloaded."


class FailingRay:
    def __init__(self, *errors: BaseException) -> None:
        self.errors, self.calls, self.running = list(errors), [], False

    def init(self, **options: object) -> None:
        assert not self.running, "a failed start must be ended before the next"
        self.calls.append(options)
        self.running = True
        if self.errors:
            raise self.errors.pop(0)

    def shutdown(self) -> None:
        self.running = False

    def is_initialized(self) -> bool:
        return self.running


def test_a_start_that_timed_out_is_tried_again() -> None:
    ray = FailingRay(Exception(SLOW), Exception(SLOW))
    start_ray(ray, num_cpus=2)
    assert ray.running
    assert [call["num_cpus"] for call in ray.calls] == [2, 2, 2]


def test_other_failures_and_interrupts_are_raised_at_once_and_leave_nothing_running() -> None:
    for error in (ValueError("no such option"), KeyboardInterrupt()):
        ray = FailingRay(error)
        with pytest.raises(type(error)):
            start_ray(ray)
        assert not ray.running
        assert len(ray.calls) == 1


def test_a_machine_on_which_ray_never_starts_is_reported() -> None:
    ray = FailingRay(*[Exception(SLOW)] * ATTEMPTS)
    with pytest.raises(Unavailable, match="4 attempts; is the machine overloaded"):
        start_ray(ray)
    assert not ray.running


def test_ray_makes_its_sockets_elsewhere_where_the_folder_for_temporary_files_has_a_long_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", "kept")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("long" * 9)))
    start_ray(FailingRay())
    assert os.environ["RAY_TMPDIR"] == "kept"
    monkeypatch.delenv("RAY_TMPDIR")
    start_ray(FailingRay())
    assert os.environ["RAY_TMPDIR"] == "/tmp"
    monkeypatch.delenv("RAY_TMPDIR")
    monkeypatch.setattr(tempfile, "tempdir", "/var/tmp")
    start_ray(FailingRay())
    assert "RAY_TMPDIR" not in os.environ


def test_a_cluster_that_is_named_is_joined_as_it_is_and_one_of_this_machine_gets_its_processors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    for address, given in ((None, {}), ("other:6379", {"address": "other:6379"})):
        ray = FailingRay()
        assert join_ray(ray, cores=500, address=address)
        assert not join_ray(ray, cores=500, address=address), "joined already"
        assert ray.calls == [quiet | given]
    monkeypatch.delenv("RAY_ADDRESS")
    for cores, given in ((500, {"num_cpus": 500}), (0, {})):
        ray = FailingRay()
        assert join_ray(ray, cores)
        assert ray.calls == [quiet | {"include_dashboard": False} | given]
