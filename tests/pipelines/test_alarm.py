"""A retrain that an alarm of the watch starts, on a server that answers as Kubeflow Pipelines does."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from kfp_backend import serving
from kfp_users import AUDIENCE, Users
from rendering import CHART, render, values_of

from operations.common.alarm import STARTED, retrain_on_alarm
from pipelines.__main__ import main
from pipelines.backend import schedule, start_scheduled
from pipelines.connection import Connection
from pipelines.local import PipelineFailed
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.errors import InvalidInput, NotFound, Unavailable
from shadowprice.watch.finding import SAMPLE_RATIO, Finding
from shadowprice.watch.verdict import FILE, Verdict

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:kfp.*", "ignore::DeprecationWarning")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CAMPAIGN = Campaign(
    name="spring", sides={"customer": Terms(levels=(0, 50))}, budget=Budget(limit=9), starts_at=NOON - timedelta(days=1)
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "campaign.json").write_text(json.dumps(CAMPAIGN.to_dict()))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.json").write_text(json.dumps({"model_version": "m1"}))
    return tmp_path


def verdict(workspace: Path, *checks: str, model: str = "m1") -> None:
    """The watch has found these alarms."""
    found = tuple(Finding(each, "customer", -1, 2.0, 1.0, True, 10, 3, "words") for each in checks)
    Verdict(campaign="spring", model_version=model, requests=10, written_at=NOON, findings=found).write(
        workspace / FILE
    )


def test_only_an_alarm_on_the_registered_model_starts_one_and_at_most_once_in_the_hours(workspace: Path) -> None:
    started: list[int] = []

    def start() -> str:
        started.append(len(started))
        return f"run {len(started)}"

    def asked(hour: float) -> str:
        return retrain_on_alarm(workspace, 24, start, NOON + timedelta(hours=hour))

    assert asked(0) == "no alarm on model m1"
    for given in ((SAMPLE_RATIO,), ()):
        verdict(workspace, *given)
        assert "no alarm" in asked(0)
    verdict(workspace, "feature_drift", model="m0")
    assert "no alarm" in asked(0)
    verdict(workspace, "feature_drift")
    assert [asked(hour).partition("m1")[2] for hour in (0, 23.9, 24, 30)] == [
        ": started run 1",
        "; a retrain was started at 2026-03-01 12:00 UTC",
        ": started run 2",
        "; a retrain was started at 2026-03-02 12:00 UTC",
    ]
    (workspace / STARTED).write_text("{}")
    with pytest.raises(InvalidInput, match="remove it"):
        asked(90)
    assert len(started) == 2


def test_a_start_that_fails_is_tried_again(workspace: Path) -> None:
    def away() -> str:
        raise Unavailable("nobody answers")

    verdict(workspace, "label_drift")
    with pytest.raises(Unavailable):
        retrain_on_alarm(workspace, 24, away)
    assert "started r" in retrain_on_alarm(workspace, 24, lambda: "r")


def test_a_retrain_here_counts_from_its_beginning_and_runs_alone(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    verdict(workspace, "label_drift")
    command = [sys.executable, "-m", "pipelines", "retrain-on-alarm", f"--workspace={workspace}", "--hours=0"]
    beside: list[str] = []

    def refuses(pipeline: str, *_: object, **__: object) -> None:
        beside.append(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)
        raise PipelineFailed(pipeline, "gate-refused", "", "", Path("retrain.log"))

    monkeypatch.setattr("pipelines.__main__.run", refuses)
    assert [main(command[3:-1]) for _ in range(3)] == [1, 0, 0]
    assert beside == ["the watch alarms on model m1; another process runs or starts a retrain\n"]
    assert capsys.readouterr().out.count("a retrain was started at") == 2


def test_the_charts_command_runs_what_the_schedule_runs(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    verdict(workspace, "calibration")
    [job] = [each for each in render(values_of(CHART / "ci" / "kubeflow-values.yaml")) if each["kind"] == "CronJob"]
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    # The verdict is written before it is read.
    assert [each["name"] for each in pod["initContainers"] + pod["containers"]] == ["watch", "retrain"]
    parameters = {"workspace": "/workspace", "log": "/ledger/served", "canary": True}
    (workspace / "token").write_text("good")
    monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", str(workspace / "token"))
    users = Users(tokens={"good": ("spring", AUDIENCE)}, edit={("spring", "growth")})
    with serving(users) as backend:
        to = Connection(host=backend.url, namespace="growth")
        places = {"--workspace": str(workspace), "--host": backend.url}
        flags = [each.partition("=") for each in pod["containers"][0]["args"][3:]]
        arguments = [f"{name}{sign}{places.get(name, value)}" for name, sign, value in flags]
        assert main(arguments) == 1
        assert "has no schedule 'shadowprice-retrain'" in capsys.readouterr().err
        assert not (workspace / STARTED).exists()
        with pytest.raises(NotFound):
            start_scheduled(to, "other", experiment="shadowprice")
        given = {"crons": ["0 0 3 * * 1"], "experiment": "shadowprice", "parameters": parameters}
        schedule(to, "retrain", "shadowprice-retrain", **given)
        for _ in range(2):
            assert main(arguments) == 0
        [run] = backend.runs.values()
        [planned] = backend.recurring.values()
    settings = {"settings": {"canary": parameters.pop("canary")}}
    assert run["runtime_config"]["parameters"] == parameters | settings
    assert run["pipeline_version_reference"] == planned["pipeline_version_reference"]
    assert run["experiment_id"] == planned["experiment_id"]
    assert f"started {run['run_id']}" in capsys.readouterr().out
