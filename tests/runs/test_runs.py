"""Runs beside each other and runs that are killed."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipelines.run_folder import new_folder, point_to


def test_runs_that_start_at_once_have_folders_of_their_own(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: new_folder(tmp_path / "runs", "20260301T120000-world"), range(8)))
    assert len(set(found)) == 8
    assert all(folder.is_dir() for folder in found)


def test_the_link_to_the_latest_run_is_never_missing_while_runs_end_at_once(tmp_path: Path) -> None:
    latest = tmp_path / "latest"
    for name in "abcdefgh":
        (tmp_path / name).mkdir()
    point_to(latest, "a")
    missing = []

    def end(name: str) -> None:
        for _ in range(200):
            point_to(latest, name)
            if not latest.is_dir():
                missing.append(name)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(end, "abcdefgh"))
    assert not missing
    assert sorted(path.name for path in tmp_path.iterdir()) == [*"abcdefgh", "latest"]


@pytest.mark.timeout(300)
def test_a_killed_run_leaves_no_process(tmp_path: Path, eventually, running) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "pipelines.quickstart", "--workers", "0", "--runs", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if "prepare …" in line:
                break
        eventually(lambda: len(running(str(tmp_path))) >= 3)  # the run, the pipeline and its step
        run.send_signal(signal.SIGKILL)
    eventually(lambda: not running(str(tmp_path)))
