"""Uploading and scheduling against a server that answers as the Kubeflow Pipelines API does."""

import subprocess
import sys

import pytest
import yaml
from kfp_backend import serving

from pipelines.__main__ import main
from pipelines.placement import CLAIM, SECRET

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:kfp.*", "ignore::DeprecationWarning")


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Runs ``python -m pipelines`` in this process; gives its status, output and errors."""
    # The command line sets these for the compiler; what it sets is taken back after the test.
    for name in (CLAIM, SECRET):
        monkeypatch.setenv(name, "")

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["pipelines", *arguments])
        try:
            status = main()
        except SystemExit as stopped:
            status = int(stopped.code or 0)
        told = capsys.readouterr()
        return status, told.out, told.err

    return run


def test_a_schedule_takes_the_place_of_the_earlier_one_and_never_catches_up(command) -> None:
    with serving() as backend:
        options = ("--host", backend.url, "--set", "workspace=/workspace", "--set", 'metrics_urls=["http://l/metrics"]')
        for _ in range(2):
            status, told, problem = command("schedule", "resolve", *options)
            assert status == 0, problem
        [run] = backend.recurring.values()
        assert told.split()[-1] == run["recurring_run_id"]
        assert run["trigger"]["cron_schedule"]["cron"] == "0 2 * * * *"
        assert run["no_catchup"] is True
        assert int(run["max_concurrency"]) == 1
        assert run["runtime_config"]["parameters"] == {
            "workspace": "/workspace",
            "metrics_urls": ["http://l/metrics"],
        }
        # The second upload is a version of the first pipeline, and the one that runs.
        [pipeline] = backend.pipelines
        versions = [entry["pipeline_version_id"] for entry in backend.versions[pipeline]]
        assert len(set(versions)) == 2
        assert run["pipeline_version_reference"]["pipeline_version_id"] == versions[-1]


def test_a_backend_that_is_away_is_named_in_one_line(command) -> None:
    status, _, problem = command("upload", "train", "--host", "http://127.0.0.1:1")
    assert status == 1
    assert "127.0.0.1:1" in problem
    assert len(problem.strip().splitlines()) == 1


def test_every_step_has_a_deadline_retries_the_workspace_and_the_secret(tmp_path) -> None:
    # A pipeline is built when its module is imported, so one process compiles for one cluster.
    arguments = ["compile", str(tmp_path), "--claim", "ws", "--redis-secret", "redis"]
    subprocess.run([sys.executable, "-W", "ignore", "-m", "pipelines", *arguments], check=True)
    for name in ("train", "resolve"):
        spec, platform = yaml.safe_load_all((tmp_path / f"{name}.yaml").read_text())
        executors = spec["deploymentSpec"]["executors"]
        placed = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
        assert set(placed) == set(executors)
        for place in placed.values():
            assert place["pvcMount"][0]["mountPath"] == "/workspace"
            assert place["secretAsEnv"][0]["keyToEnv"] == [{"envVar": "SHADOWPRICE_REDIS", "secretKey": "connection"}]
            assert int(place["activeDeadlineSeconds"]) >= 300
        for executor in executors.values():
            resources = executor["container"]["resources"]
            assert {"resourceCpuRequest", "resourceMemoryRequest", "resourceMemoryLimit"} <= set(resources)


def test_without_a_claim_nothing_of_a_cluster_is_named(command, tmp_path) -> None:
    assert command("compile", str(tmp_path))[0] == 0
    assert "pvcMount" not in (tmp_path / "train.yaml").read_text()


@pytest.mark.parametrize("wrong", ["workspace", "=x"])
def test_a_parameter_without_a_value_is_refused(command, wrong: str) -> None:
    status, _, problem = command("run", "resolve", "--set", wrong)
    assert status == 2
    assert "NAME=VALUE" in problem
