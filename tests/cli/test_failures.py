"""A failure of any command is one line on standard error, or JSON on standard output, and leaves nothing behind."""

import contextlib
import errno
import json
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import cli.main as command
from operations.common import disk
from operations.common.disk import require_space
from pipelines import quickstart
from pipelines.run_folder import RunFolder
from shadowprice.command.failures import answer, deliberate
from shadowprice.errors import Conflict, NotFound, StorageFailed, Unavailable

NOWHERE = "/nowhere/at/all"
CALLS = (
    ("init", NOWHERE, "--trials", f"{NOWHERE}.csv"),
    ("check", f"{NOWHERE}.yaml"),
    ("check", NOWHERE),
    ("run", f"{NOWHERE}.yaml"),
    ("run", NOWHERE, "--days", "2"),
    ("run",),
    ("quickstart", "--dataset", "o2o"),
    ("quickstart", "--dataset", "o2o", "--data", NOWHERE),
    ("quickstart", "--dataset", "mars"),
    ("quickstart", "--days", "0"),
    ("quickstart", "--recipe", "magic"),
    ("quickstart", "--epochs", "many"),
    ("quickstart", "--workers", "-1"),
    ("quickstart", "--weighting", "heavy"),
    ("quickstart", "--options", "{"),
    ("quickstart", "--resume", "--runs", NOWHERE),
    ("report", NOWHERE),
    ("explain", "a1", "--campaign", "c", "--url", "http://127.0.0.1:9"),
    ("explain", "a1", "--campaign", "c", "--token-file", NOWHERE),
    ("whatif", NOWHERE),
    ("plan", NOWHERE, "--accounts", "5", "--response", "0.1", "--money", "0.06"),
    ("price", "show", NOWHERE),
    ("price", "history", NOWHERE),
    ("price", "rollback", NOWHERE, "1"),
    ("pipelines", "run", "train"),
    ("job", "register", "--model", NOWHERE, "--workspace", NOWHERE),
    ("job", "register"),
    ("rolling", "--data", NOWHERE, "--first", "2026-03-01", "--last", "2026-03-02"),
    ("ledger", "reconcile", "--ledger-url", "http://127.0.0.1:9"),
    ("ledger", "recover", "--campaign-file", NOWHERE, "--log-dir", NOWHERE),
    ("ready", "--campaign", "c", "--predictor-url", "http://127.0.0.1:9", "--ledger-url", "http://127.0.0.1:9"),
    ("resolve", "--workspace", NOWHERE),
    ("resolve",),
    ("conquer",),
)


def call(words: tuple[str, ...]) -> int:
    """Run a command; a parser of arguments ends the process."""
    try:
        return command.main(list(words))
    except SystemExit as ended:
        return int(ended.code or 0)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that commands run in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("serving.resolve.quiet_logs", lambda: None)
    return tmp_path


@pytest.mark.parametrize("words", CALLS, ids=" ".join)
def test_a_failure_is_one_line_or_json_and_leaves_nothing(
    words: tuple[str, ...], place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    status = call(words)
    plain = capfd.readouterr()
    assert status in (1, 2)
    assert len(plain.err.splitlines()) == 1, plain.err
    assert plain.out == ""
    assert call((*words, "--json")) == status
    told = json.loads(capfd.readouterr().out)
    assert told["error"]["type"]
    assert told["error"]["message"].splitlines()[0] in plain.err
    assert list(place.iterdir()) == []


def mounted(folder: Path, options: str) -> Iterator[Path]:
    """A file system in memory, where it may be mounted."""
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small file system can be mounted by root alone")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file system in memory of two megabytes."""
    yield from mounted(tmp_path_factory.mktemp("disk"), "size=2m")


@pytest.fixture
def full_disk(small_disk: Path) -> Iterator[Path]:
    """The same without a free byte."""
    filler = small_disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(bytes(1 << 12)):
            pass
    yield small_disk
    filler.unlink()


@pytest.fixture(scope="module")
def closed_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file system for reading alone."""
    yield from mounted(tmp_path_factory.mktemp("closed"), "ro,size=2m")


def written_to(folder: Path, examples: Path) -> list[tuple[str, ...]]:
    """Commands that write into a folder."""
    trials = str(examples.with_name("mapping") / "gutscheine.csv")
    return [
        ("init", str(folder / "shop"), "--trials", trials),
        ("quickstart", "--runs", str(folder / "runs")),
        ("job", "prepare", "--tables", str(folder / "tables"), "--dataset", "promotion"),
        ("pipelines", "compile", str(folder / "compiled")),
    ]


@pytest.mark.parametrize("which", [0, 1, 2, 3])
@pytest.mark.parametrize(
    ("disk", "text"),
    [("full_disk", "disk is full|No space left"), ("closed_disk", "read or written|Read-only file")],
)
def test_a_disk_that_is_full_or_read_only_is_one_line(
    disk: str,
    text: str,
    which: int,
    request: pytest.FixtureRequest,
    examples: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Each command is to meet the disk itself.
    monkeypatch.setattr("operations.common.disk.RESERVE", -(10**12))
    folder = request.getfixturevalue(disk)
    words = written_to(folder, examples)[which]
    assert call(words) == 1
    told = capfd.readouterr().err.splitlines()
    assert [line for line in told if "so far" not in line] == told[-1:]
    assert re.search(text, told[-1])
    assert call((*words, "--json")) == 1
    assert re.search(text, json.loads(capfd.readouterr().out)["error"]["message"])
    assert list(folder.glob("runs/*")) == []


def test_a_run_says_what_it_needs_and_does_not_begin_on_a_disk_that_has_less(
    small_disk: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert call(("quickstart", "--runs", str(small_disk / "own" / "runs"))) == 1
    told = capfd.readouterr()
    assert "the run needs about 20 MB of disk" in told.err
    assert str(small_disk) + " has " in told.err
    assert not (small_disk / "own").exists()
    with pytest.raises(StorageFailed, match=r"register needs about 57 GB of disk"):
        require_space(small_disk, 57e9, "register")


def test_a_large_need_that_is_met_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda _: SimpleNamespace(free=60e9))
    require_space(tmp_path / "not" / "there", 57e9, "register")
    assert capsys.readouterr().out == f"register needs about 57 GB of disk, and {tmp_path} has 60 GB free\n"
    require_space(tmp_path, 1e6, "register")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("kind", ["broken table", "unknown column", "unknown option"])
def test_a_run_whose_data_are_refused_leaves_no_folder(
    kind: str, examples: Path, tmp_path: Path, monkeypatch, capfd
) -> None:
    """Its first step finds what no look at the arguments can."""

    def refused(name: str, *, root: Path, **_: object) -> None:
        root.mkdir(parents=True)
        raise quickstart.PipelineFailed(name, "prepare", f"InvalidTable: {kind}", "", root / "train.log")

    monkeypatch.setattr(quickstart, "run_pipeline", refused)
    runs = tmp_path / "runs"
    told = ["--dataset", "tables", "--data", str(examples), "--runs", str(runs), "--json"]
    assert quickstart.main(told) == 1
    assert json.loads(capfd.readouterr().out)["error"] == {"type": "InvalidTable", "message": kind}
    assert list(runs.iterdir()) == []


def test_a_run_that_is_at_work_is_not_resumed_beside_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.run_folder.WAIT_SECONDS", 0.2)
    arguments = {"dataset": "world", "data": "", "options": {}}
    run = RunFolder.begin(tmp_path, arguments)
    with pytest.raises(Conflict, match="is at work in another process"):
        RunFolder.resume(run.folder, arguments)


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/d/x"), StorageFailed, "/d/x: the disk is full"),
        (OSError("12 requested and 4 written"), StorageFailed, "the disk is full"),
        (sqlite3.OperationalError("database or disk is full"), StorageFailed, "the disk is full"),
        (sqlite3.OperationalError("attempt to write a readonly database"), StorageFailed, "cannot be read or written"),
        (PermissionError(errno.EACCES, "Permission denied", "/d/x"), StorageFailed, "/d/x: cannot be read or written"),
        (FileNotFoundError(errno.ENOENT, "No such file", "/d/x"), NotFound, "/d/x: there is no such file"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), Unavailable, "does not answer"),
        (IsADirectoryError(errno.EISDIR, "Is a directory", "/d"), StorageFailed, "/d: Is a directory"),
    ],
)
def test_failures_of_the_system_have_a_meaning(error: Exception, kind: type[Exception], text: str) -> None:
    found = deliberate(error)
    assert type(found) is kind
    assert text in str(found)


def test_an_error_of_the_code_is_not_taken_for_one_of_the_system() -> None:
    assert deliberate(KeyError("x")) is None

    def fail() -> int:
        raise KeyError("x")

    with pytest.raises(KeyError):
        answer("command", fail)


def test_a_reader_that_has_seen_enough_ends_a_command_without_a_complaint() -> None:
    code = subprocess.run(
        ["bash", "-c", "set -o pipefail; python -c 'from shadowprice.command.failures import answer\n"
         "import sys\nsys.exit(answer(\"x\", lambda: [print(\"y\" * 99) for _ in range(9999)] and 0))' | head -n 1"],
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert "Traceback" not in code.stderr
