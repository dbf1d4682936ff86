"""Options of a run that goes on: those that are not given again are as they were."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli import run
from pipelines import quickstart

BEFORE = {"dataset": "o2o", "data": "/data", "epochs": 7, "weighting": "known", "beat_uniform": True, "seed": 3}


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Arguments of each run, which begins in a folder with an interrupted one."""
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "run.json").write_text(json.dumps({"arguments": BEFORE, "ended": False}))
    calls: list[dict[str, Any]] = []

    def stopped(runs: Path, arguments: dict[str, Any], *, resume: Path | None) -> Path:
        calls.append(arguments | {"resume": resume})
        raise KeyboardInterrupt

    monkeypatch.setattr(quickstart, "quickstart", stopped)
    return calls


def test_a_run_that_goes_on_keeps_what_is_not_given_again(
    asked: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = {"resume": (tmp_path / "old").resolve()}
    assert quickstart.main(["--resume", "--runs", str(tmp_path)]) == 130
    assert capsys.readouterr().err == "interrupted; --resume goes on\n"
    assert quickstart.main(["--resume", "--runs", str(tmp_path), "--epochs", "400", "--no-beat-uniform"]) == 130
    assert run.main(["--resume", "--runs", str(tmp_path), "--seed", "0"]) == 130
    assert run.main([str(tmp_path), "--resume", "--runs", str(tmp_path)]) == 130
    named = {"dataset": "tables", "data": str(tmp_path.resolve())}
    changes: list[dict[str, Any]] = [{}, {"epochs": 400, "beat_uniform": False}, {"seed": 0}, named]
    assert asked == [BEFORE | old | each for each in changes]


def test_a_new_run_has_the_defaults_of_the_jobs_but_for_its_own(asked: list[dict[str, Any]], tmp_path: Path) -> None:
    assert quickstart.main(["--runs", str(tmp_path), "--options", '{"rows": 5}']) == 130
    [found] = asked
    assert (found["dataset"], found["data"], found["days"], found["resume"]) == ("world", "", 1, None)
    assert (found["epochs"], found["workers"], found["beat_uniform"], found["weighting"]) == (400, 1, False, "none")
    assert found["options"] == {"rows": 5}
    assert not {"runs", "as_json", "path", "context"} & found.keys()
