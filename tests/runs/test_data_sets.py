"""The main job on other data sets than the default one, and a deployment of its result."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from operations.common.workspace import CAMPAIGN, override_in, read_campaign
from operations.evaluate import EvaluateJob
from operations.evaluate import run as evaluate
from operations.measure import MeasureJob
from operations.measure import run as measure
from operations.promote import PromoteJob
from operations.promote import run as promote
from operations.publish import PublishJob
from operations.publish import run as publish
from operations.register import RegisterJob
from operations.register import run as register
from operations.solve import SolveJob
from operations.solve import run as solve
from pipelines.local import PipelineFailed
from pipelines.local import run as run_pipeline
from serving.client.client import DecisionClient, LedgerClient
from serving.local.launch import Deployment, launch
from shadowprice.datasets import load
from shadowprice.datasets.folder import write_tables
from shadowprice.learning.bundle import read_meta
from shadowprice.learning.training_set import TrainingSet
from shadowprice.pacing.canary import Canary
from shadowprice.responses.sided import load_sided
from shadowprice.tables import validate_tables

pytestmark = pytest.mark.timeout(1500)


@pytest.fixture
def command(monkeypatch, capsys) -> Callable[..., tuple[int, str, str]]:
    """Runs a command of the chart in this process and gives its exit status, output and errors."""

    def run(module: str, *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("serving.resolve.quiet_logs", lambda: None)
        capsys.readouterr()
        status = import_module(module).main(arguments)
        return status, *capsys.readouterr()

    return run


def this_hour() -> datetime:
    return datetime.now(UTC).replace(minute=0, second=0, microsecond=0)


NEW = [f"a{number:07d}" for number in range(40)]
"""Customers who come after training."""


@pytest.fixture(scope="module")
def newer_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables with requests that have context, and with customers that the older tables beside them lack."""
    folder = tmp_path_factory.mktemp("own")
    size = {"customers": 1200, "merchants": 300, "both": 0, "day_requests": 6000}
    tables = load("world", context=1.0, **size).tables
    write_tables(tables, folder / "newer")
    older = {
        "account": tables.account[~tables.account["account_id"].isin(NEW)],
        "edge": tables.edge[~tables.edge["src"].isin(NEW)],
        "exposure": tables.exposure[~tables.exposure["account_id"].isin(NEW)],
        "offer": tables.offer,
        "campaign": tables.campaign.assign(hours=6),
    }
    known = tables.outcome["request_id"].isin(older["exposure"]["request_id"])
    write_tables(validate_tables({**older, "outcome": tables.outcome[known]}), folder / "tables")
    return folder / "newer"


@pytest.fixture(scope="module")
def own_tables(quickstart, newer_tables: Path):
    """A run on a user's own tables."""
    data = str(newer_tables.with_name("tables"))
    return quickstart("--dataset", "tables", "--data", data, "--workers", "0", "--epochs", "80")


def test_a_users_own_tables_go_through(own_tables) -> None:
    folder, summary = own_tables
    assert "fitted outcome model" in (folder / "report.html").read_text()
    assert summary["rows"]["exposure"] == 12_000 - 8 * len(NEW)
    assert summary["serve"]["errors"] == 0
    assert summary["pacing"]["hours"] == 6
    assert summary["pacing"]["overspend"] <= summary["pacing"]["largest_hourly_forecast_error"]


def test_a_deployed_campaign_is_checked_and_priced_again_by_the_commands_of_the_chart(
    own_tables, tmp_path: Path, command, eventually
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
    status, _, errors = command("serving.resolve", "--workspace", str(folder))
    assert status == 1
    assert "register the model again" in errors
    shutil.copytree(run / "population", folder / "population")
    # Prices of the window before decide nothing in this one.
    status, _, errors = command("serving.resolve", "--workspace", str(folder))
    assert status == 0, errors
    with launch(Deployment.of_run(folder, folder / CAMPAIGN)) as services:
        before = [path.name for path in (folder / "prices" / running.name).glob("*.json")]
        status, said, errors = command(
            "serving.resolve", "--workspace", str(folder), "--ledger-url", services.ledger_url
        )
        assert status == 0, errors
        assert "for slot 1" in said
        assert len(list((folder / "prices" / running.name).glob("*.json"))) == len(before) + 1
        address = ("--predictor-url", services.predictor_url, "--ledger-url", services.ledger_url)
        status, _, errors = command("serving.client.check", "--campaign", running.name, *address)
        assert status == 0, errors
        with LedgerClient(services.ledger_url) as ledger:
            totals = ledger.totals()
        aged = ("--max-price-age-seconds", "0")
        status, _, errors = command("serving.client.check", "--campaign", running.name, *address, *aged)
        assert status == 1
        assert "old" in errors
        on_trial = start_canary(folder, tmp_path, services.ledger_url)
        names = [f"a{row:07d}" for row in range(200)]
        wanted = np.where(on_trial.takes(names), "canary", "unassigned").tolist()

        def beside() -> bool:
            request_ids = [f"beside-{time.monotonic_ns()}-{row}" for row in range(200)]
            told = client.decide(request_ids, names, ["customer"] * 200)
            versions = dict(zip(told.arm, told.model_version, strict=True))
            return told.arm.tolist() == wanted and versions["canary"] == on_trial.model_version

        with DecisionClient(services.predictor_url, running.name) as client:
            eventually(beside)
    # The check returned its authorization.
    assert totals["outstanding"] == 0
    assert sum(totals["requests"].values()) == 1
    status, _, errors = command("serving.client.check", "--campaign", running.name, *address)
    assert status == 1
    assert "does not answer" in errors


def start_canary(run: Path, folder: Path, ledger_url: str) -> Canary:
    """Put a copy of the served model on trial for a third of the units, with a price, and return its canary."""
    shutil.copytree(run / "model", folder / "trial", symlinks=False)
    meta = json.loads((folder / "trial" / "model.json").read_text())
    (folder / "trial" / "model.json").write_text(json.dumps(meta | {"model_version": "on-trial"}))
    assert promote(PromoteJob(workspace=run, model=folder / "trial", stages=("3333:0",))) == "start"
    measure(MeasureJob(state=folder / "state.json", workspace=run, ledger_url=ledger_url))
    solve(SolveJob(state=folder / "state.json", price=folder / "price", workspace=run))
    publish(PublishJob(price=folder / "price", workspace=run))
    found = Canary.read(run, "world")
    assert found is not None
    assert found.share == 3333
    return found


def test_accounts_that_came_after_training_are_embedded_and_decided_by_their_own_curves(
    own_tables, newer_tables: Path, tmp_path: Path, command
) -> None:
    run, _ = own_tables
    context = {"x_basket": [0.5] * 4, "c_channel": ["app"] * 4}
    asked = [[*NEW[:3], "a0000100"], ["customer"] * 4]
    with (
        launch(Deployment.of_run(run, run / CAMPAIGN)) as services,
        DecisionClient(services.predictor_url, "world") as client,
    ):
        places = ("--url", services.predictor_url, "--ledger-url", services.ledger_url)
        status, said, errors = command("cli.main", "doctor", str(run), *places)
        before = client.decide([f"before-{row}" for row in range(4)], *asked, context=context)
        done = run_pipeline("embed", tmp_path, {"workspace": str(run), "dataset": "tables", "data": str(newer_tables)})
        after = client.decide([f"after-{row}" for row in range(4)], *asked, context=context)
    assert "embed" in done
    # A finished run with its own services is sound; its day is past.
    assert status == 0, said + errors
    assert "note (campaign): the window of campaign world ended" in said
    assert before.reason.tolist()[:3] == ["cold_start"] * 3
    assert "cold_start" not in after.reason
    # The account known before keeps its answer, and the price its model.
    assert (before.response[3], before.model_version[3]) == (after.response[3], after.model_version[3])
    model = load_sided(run / "model")
    (found,) = {path.parent for path in tmp_path.rglob("training_set.json")}
    data = TrainingSet.load(found)
    rows = pd.DataFrame({"account_id": asked[0], **context})
    curves = model.curves(data.inputs, {"customer": rows})["customer"].response
    expected = curves[after.level, range(4)]
    assert after.response[:3] == pytest.approx(expected[:3], rel=1e-4)


def test_what_was_served_becomes_training_data_of_the_next_model(
    own_tables, newer_tables: Path, tmp_path: Path
) -> None:
    run, summary = own_tables
    before = (run / "model").resolve()
    arguments = {"workspace": str(run), "dataset": "tables", "data": str(newer_tables.with_name("tables"))}
    arguments |= {"log": str(run / "served" / "replay-ledger")}
    reason = ""
    try:
        run_pipeline("retrain", tmp_path, {**arguments, "epochs": 5, "workers": 0, "mature_hours": 0})
    except PipelineFailed as error:
        reason = str(error)
    (found,) = {path.parent for path in tmp_path.rglob("training_set.json")}
    rows = TrainingSet.load(found).rows
    trial = summary["rows"]["exposure"]
    served = sum(len(each) for each in rows.values()) - trial
    decided = summary["serve"]["requests"]
    assert 0.95 * decided < served <= decided
    # Five epochs may or may not beat the model in use; the gate alone decides.
    registered = (run / "model").resolve() != before
    assert registered == (reason == "")
    assert registered or "step 'gate-refused'" in reason


def test_the_example_is_too_small_to_pass_the_gate_and_the_run_says_so(examples: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "pipelines.quickstart", "--dataset", "tables", "--workers", "0"]
    done = subprocess.run(
        [*command, "--data", str(examples), "--epochs", "40", "--runs", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1
    assert "did not pass the gate" in done.stderr
    assert "AUC above 0.5 by its lower bound" in done.stderr
    assert not (tmp_path / "latest").exists()
    (run,) = tmp_path.glob("*-tables")
    # The flat policy is there to be served in its place.
    assert read_meta((run / "model").resolve())["recipe"] == "flat"
    assert f"until then `shadowprice serve {run}` serves the flat policy" in done.stderr
    assert f"what would mend it: {run}/report.html" in done.stderr
    assert "train: gate-refused failure" in done.stdout
    assert "Conflict: the gate refuses model" in (run / "pipeline" / "train.log").read_text()
    assert "What would mend it" in (run / "report.html").read_text()

    # A person may take the model all the same: the same steps, with a reason and a name.
    (steps,) = run.glob("pipeline/shadowprice-train-*")
    override = {"reason": "an example", "by": "Ada"}
    job = EvaluateJob(
        model=steps / "train" / "model",
        training=steps / "featurize" / "training",
        tables=steps / "prepare" / "tables",
        page=tmp_path / "page.html",
        summary=tmp_path / "summary.md",
        evaluation=tmp_path / "evaluation.json",
        figures=tmp_path / "figures.json",
        beat_uniform=False,
        override=override,
    )
    assert json.loads((steps / "evaluate" / "metrics").read_text())["accepted"] == 0
    assert evaluate(job)
    figures = json.loads(job.figures.read_text())
    assert figures["accepted"] == 1
    assert figures["gain_low"] <= figures["gain"] <= figures["gain_high"]
    assert "The model is taken all the same by Ada: an example" in job.page.read_text()
    assert "taken all the same by Ada" in job.summary.read_text()
    version = register(RegisterJob(model=job.model, workspace=run, evaluation=job.evaluation))
    assert override_in(run, version) == override
