"""The main job on other data sets than the default one, and a deployment of its result."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from operations.workspace import CAMPAIGN, read_campaign
from serving.client.client import LedgerClient
from serving.local.launch import Deployment, launch
from shadowprice.datasets import load
from shadowprice.datasets.folder import write_tables

pytestmark = pytest.mark.timeout(1500)


def command(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", module, *arguments], capture_output=True, text=True, check=False
    )


def this_hour() -> datetime:
    return datetime.now(UTC).replace(minute=0, second=0, microsecond=0)


def test_thornton_goes_through_and_says_that_outcomes_are_simulated(quickstart) -> None:
    folder, summary = quickstart("--dataset", "thornton", "--workers", "0")
    assert summary["dataset"] == "thornton"
    assert summary["metrics"]["customer"]["auc"]["low"] > 0.6
    assert summary["pacing"]["overspend"] <= summary["pacing"]["largest_hourly_forecast_error"]
    assert "fitted outcome model" in (folder / "report.html").read_text()


@pytest.fixture(scope="module")
def own_tables(quickstart, tmp_path_factory: pytest.TempPathFactory):
    """A run on a user's own tables."""
    folder = tmp_path_factory.mktemp("own")
    write_tables(load("world", customers=1200, merchants=300, both=30, day_requests=6000).tables, folder / "tables")
    return quickstart("--dataset", "tables", "--data", str(folder / "tables"), "--workers", "0", "--epochs", "80")


def test_a_users_own_tables_go_through(own_tables) -> None:
    _, summary = own_tables
    assert summary["rows"]["exposure"] == 12_000
    assert summary["serve"]["errors"] == 0
    assert summary["pacing"]["overspend"] <= summary["pacing"]["largest_hourly_forecast_error"]


def test_a_deployed_campaign_is_checked_and_priced_again_by_the_commands_of_the_chart(
    own_tables, tmp_path: Path
) -> None:
    run, _ = own_tables
    folder = tmp_path / "workspace"
    folder.mkdir()
    for name in ("features", "model", "prices"):
        shutil.copytree(run / name, folder / name)
    for path in run.glob("traffic*"):
        shutil.copy(path, folder)
    running = replace(read_campaign(run), starts_at=this_hour() - timedelta(hours=1))
    (folder / CAMPAIGN).write_text(json.dumps(running.to_dict()))
    lost = command("serving.resolve", "--workspace", str(folder))
    assert lost.returncode == 1
    assert "register the model again" in lost.stderr
    shutil.copytree(run / "population", folder / "population")
    # Prices of the window before decide nothing in this one.
    first = command("serving.resolve", "--workspace", str(folder))
    assert first.returncode == 0, first.stderr
    with launch(Deployment.of_run(folder, folder / CAMPAIGN)) as services:
        before = [path.name for path in (folder / "prices" / running.name).glob("*.json")]
        solved = command("serving.resolve", "--workspace", str(folder), "--ledger-url", services.ledger_url)
        assert solved.returncode == 0, solved.stderr
        assert "for slot 1" in solved.stdout
        assert len(list((folder / "prices" / running.name).glob("*.json"))) == len(before) + 1
        address = ("--predictor-url", services.predictor_url, "--ledger-url", services.ledger_url)
        checked = command("serving.client.check", "--campaign", running.name, *address)
        assert checked.returncode == 0, checked.stderr
        with LedgerClient(services.ledger_url) as ledger:
            totals = ledger.totals()
        old = command("serving.client.check", "--campaign", running.name, *address, "--max-price-age-seconds", "0")
        assert old.returncode == 1
        assert "old" in old.stderr
    # What the check was promised, it gave back.
    assert totals["outstanding"] == 0
    assert sum(totals["requests"].values()) == 1
    gone = command("serving.client.check", "--campaign", running.name, *address)
    assert gone.returncode == 1
    assert "does not answer" in gone.stderr


def test_the_example_is_too_small_to_pass_the_gate_and_the_run_says_so(examples: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "pipelines.quickstart", "--dataset", "tables", "--workers", "0"]
    done = subprocess.run(
        [*command, "--data", str(examples), "--epochs", "40", "--runs", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "did not pass the gate" in done.stderr
    assert "AUC above 0.5 by its lower bound" in done.stderr
    assert not list(tmp_path.glob("*/model"))
    assert not (tmp_path / "latest").exists()
