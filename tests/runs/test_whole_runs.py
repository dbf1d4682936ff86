"""Each data set of the README's table, run whole at small size, and one of them killed and resumed."""

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import pytest
from messages import marked
from snippets import ROOT, Machine, blocks_of, follow

from operations.common.workspace import REPLAY_PRICES
from pipelines.days.week import EVERY, WEEK
from pipelines.quickstart import DataSet
from serving.local.policy import policy_in_words
from serving.local.run import serve
from shadowprice.datasets.o2o import JULY_FILE, LABELED_FILE
from shadowprice.errors import NotFound

pytestmark = pytest.mark.timeout(1500)

# Whether a model of so few rows passes the gate is not the matter of these tests.
TAKEN = ("--override", '{"reason": "a small run", "by": "tests"}', "--workers", "0")
(DRIFTING,) = (block for block in blocks_of(ROOT / "docs/how-to/retrain.md") if "--days" in block.text)
"""Run of a population that drifts, as the guide prints it."""
DAYS = int(re.findall(r"--days (\d+)", DRIFTING.text)[0])
SHARE = 40
"""One in so many users of the real receipts."""


@pytest.fixture(scope="module")
def arguments(
    request: pytest.FixtureRequest, examples: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[str, ...]]:
    """Give the options of a small run of a data set."""

    def given(name: str) -> tuple[str, ...]:
        match name:
            case "promotion":
                own = ("--options", '{"rows": 1000, "levels": [0, 50, 100]}', "--epochs", "5")
            case "tables":
                own = ("--data", str(examples), "--epochs", "10")
            case "mapping":
                own = ("--data", str(examples.with_name("mapping") / "mapping.yaml"), "--epochs", "10")
            case "o2o":
                folder = tmp_path_factory.mktemp("receipts")
                for file in (LABELED_FILE, JULY_FILE):
                    rows = pd.read_parquet(request.getfixturevalue("shared_data") / "o2o_coupon" / file)
                    rows[rows["user_id"] % SHARE == 0].to_parquet(folder / file)
                own = ("--data", str(folder), "--epochs", "5")
            case _:
                own = ("--epochs", "5")
        return ("--dataset", name, *own, *TAKEN)

    return given


@pytest.fixture(scope="module")
def made(
    quickstart: Callable[..., Any],
    arguments: Callable[[str], tuple[str, ...]],
    machine: Machine,
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], Any]:
    """Give the folder and the summary of a small run, made once: of ``world`` the one that a guide prints."""
    found: dict[str, Any] = {}

    def run(name: str) -> Any:
        if name == "world" and name not in found:
            place = tmp_path_factory.mktemp("guide")
            follow([DRIFTING], place, machine, {})
            folder = (place / "drifting/latest").resolve()
            found[name] = folder, json.loads((folder / "summary.json").read_text())
        if name not in found:
            found[name] = quickstart(*arguments(name))
        return found[name]

    return run


def test_the_table_of_the_readme_names_the_data_sets_of_a_run() -> None:
    table = (ROOT / "README.md").read_text().split("| `DATASET=`")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == set(get_args(DataSet))


@pytest.mark.parametrize("name", get_args(DataSet))
def test_a_data_set_runs_whole(name: str, made: Callable[[str], Any]) -> None:
    folder, summary = made(name)
    assert summary["dataset"] == name
    assert summary["serve"]["requests"] > 0
    assert summary["serve"]["errors"] == 0
    assert summary["pacing"]["spend"] <= 1.05 * summary["pacing"]["allowance"]
    for file in ("report.html", "report.json", "price.json", "who_got_what.csv"):
        assert (folder / file).stat().st_size > 0, file
    steps = {"prepare", "featurize", "train", "evaluate", "worth", "register", "measure", "solve", "publish"}
    steps |= {"outcome model", "serve and replay", "compare", "report"} | ({"days"} if name == "world" else set())
    # Voucher sessions have no rows that no model has learned from, beside those of the test.
    steps -= {"worth"} if name == "vouchers" else set()
    assert set(summary["seconds"]) == steps | {"total"}
    assert set(summary["peak_memory_mb"]) == steps
    # An interpreter with its libraries is above the lower bound, and so small a run is far below the upper one.
    assert all(40 < peak < 4000 for peak in summary["peak_memory_mb"].values()), summary["peak_memory_mb"]


def test_days_of_a_population_that_drifts_retrain_weekly_and_never_overspend(made: Callable[[str], Any]) -> None:
    folder, summary = made("world")
    loop = summary["loop"]
    assert loop["days"] == len(loop["by_day"]) == DAYS > EVERY
    # One retrain, after the first week, through the whole pipeline; the gate may refuse its model.
    assert not any(day["retrained"] for each, day in enumerate(loop["by_day"]) if each + 1 != EVERY)
    assert (folder / WEEK / "pipeline").is_dir()
    assert loop["value"]["oracle"] > loop["value"]["frozen"] > 0
    assert loop["largest_overspend"] == {"closed_loop": 0.0, "frozen": 0.0, "oracle": 0.0}
    assert "days of a population that drifts" in (folder / "report.html").read_text()


def killed(runs: Path, at: Callable[[str], bool], *arguments: str) -> str:
    """Start a run, kill it at the first line that fits, and return what it printed."""
    command = [sys.executable, "-W", "ignore", "-m", "pipelines.quickstart", "--runs", str(runs), *arguments]
    printed = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT) as run:
        assert run.stdout is not None
        for line in run.stdout:
            printed += line
            if at(line):
                run.send_signal(signal.SIGKILL)
                break
        else:
            pytest.fail(f"it was not killed: {printed[-2000:]}")
        run.wait()
    return printed


def timeless(summary: Any) -> Any:
    """Leave out of a summary what a clock or the system measured."""
    own = {name: value for name, value in summary.items() if name not in ("seconds", "peak_memory_mb")}
    clock = {"serve": ("p50_ms", "p99_ms", "throughput_rps"), "solve": ("seconds",)}
    for part, names in clock.items():
        own[part] = {name: value for name, value in own[part].items() if name not in names}
    return own


def test_a_run_that_is_killed_twice_goes_on_and_reports_the_figures_of_one_that_is_not(
    made: Callable[[str], Any], arguments: Callable[[str], tuple[str, ...]], tmp_path: Path
) -> None:
    def replayed(line: str) -> bool:
        if "serve and replay …" not in line:
            return False
        deadline = time.monotonic() + 120
        while len(list(tmp_path.glob(f"*/{REPLAY_PRICES}/*/*.json"))) < 4:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return True

    killed(tmp_path, lambda line: "train: evaluate …" in line, *arguments("thornton"))
    (begun,) = (path for path in tmp_path.glob("*-thornton"))
    with pytest.raises(NotFound) as unfinished:
        policy_in_words(begun)
    with pytest.raises(NotFound) as nothing:
        serve(tmp_path / "latest")
    (hint,), others = marked(str(unfinished.value)), marked(str(nothing.value))
    assert others == ["shadowprice run", hint]
    told = killed(tmp_path, replayed, "--resume")
    assert "train: train finished before" in told
    assert "train: evaluate success" in told
    (folder,) = (path for path in tmp_path.glob("*-thornton"))
    marks = {path: path.stat().st_mtime_ns for path in folder.rglob("finished.json")}
    assert len(marks) == 10

    command = [sys.executable, "-W", "ignore", "-m", "pipelines.quickstart", "--runs", str(tmp_path)]
    other = subprocess.run([*command, "--resume", "--seed", "3"], capture_output=True, text=True, cwd=ROOT)
    assert other.returncode == 1
    assert "seed was 0, now 3" in other.stderr
    assert len(other.stderr.splitlines()) == 1

    words = [sys.executable, "-W", "ignore", "-m", *shlex.split(hint), "--runs", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert policy_in_words(tmp_path / "latest") == []
    assert done.stdout.count("finished before") == 10
    assert {path: path.stat().st_mtime_ns for path in marks} == marks
    summary = json.loads((folder / "summary.json").read_text())
    assert timeless(summary) == timeless(made("thornton")[1])
    assert (tmp_path / "latest").resolve() == folder
    assert sum(seconds for name, seconds in summary["seconds"].items() if name != "total") > 1

    again = subprocess.run([*command, "--resume"], capture_output=True, text=True, cwd=ROOT)
    assert again.returncode == 1
    assert "has no run that was interrupted" in again.stderr
