"""Uploading and scheduling against a server that answers as the Kubeflow Pipelines API does."""

import json

import pytest
from kfp_backend import Backend, serving
from rendering import CHART, values_of

from pipelines.__main__ import main
from pipelines.cluster import NAMES, variable
from pipelines.local import PIPELINES
from pipelines.parameters import PARAMETERS

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:kfp.*", "ignore::DeprecationWarning")


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Runs ``python -m pipelines`` in this process; gives its status, output and errors."""
    # The command line sets these for the compiler; what it sets is taken back after the test.
    for name in NAMES:
        monkeypatch.setenv(variable(name), "")

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        told = capsys.readouterr()
        return status, told.out, told.err

    return run


def crons(backend: Backend) -> list[str]:
    return [run["trigger"]["cron_schedule"]["cron"] for run in backend.recurring.values()]


def test_a_schedule_takes_the_place_of_the_earlier_one_and_never_catches_up(command) -> None:
    with serving() as backend:
        options = ("--host", backend.url, "--set", "workspace=/workspace", "--set", 'metrics_urls=["http://l/metrics"]')
        for _ in range(2):
            status, told, problem = command("schedule", "resolve", *options)
            assert status == 0, problem
        assert told.split()[-2:] == list(backend.recurring)
        # Those of the chart's two CronJobs.
        chart = values_of(CHART / "values.yaml")["resolve"]
        assert crons(backend) == [f"0 {chart['schedule']}", f"0 {chart['closingSchedule']}"]
        # The second upload is a version of the first pipeline, and the one that runs.
        [pipeline] = backend.pipelines
        versions = [entry["pipeline_version_id"] for entry in backend.versions[pipeline]]
        assert len(set(versions)) == 2
        for run in backend.recurring.values():
            assert run["no_catchup"] is True
            assert int(run["max_concurrency"]) == 1
            assert run["runtime_config"]["parameters"] == {
                "workspace": "/workspace",
                "settings": {"metrics_urls": ["http://l/metrics"]},
            }
            assert run["pipeline_version_reference"]["pipeline_version_id"] == versions[-1]
        # Fewer clocks than before leave none of the earlier ones.
        assert command("schedule", "resolve", *options, "--cron", "0 7 * * * *")[0] == 0
        assert crons(backend) == ["0 7 * * * *"]


def test_an_earlier_schedule_is_found_among_hundreds(command) -> None:
    with serving() as backend:
        options = ("--host", backend.url, "--set", "workspace=/workspace", "--cron", "0 7 * * * *")
        assert command("schedule", "resolve", *options)[0] == 0
        [(first, made)] = backend.recurring.items()
        others = {f"other-{i}": {**made, "recurring_run_id": f"other-{i}", "display_name": "other"} for i in range(230)}
        backend.recurring = {**others, first: made}
        status, told, _ = command("schedule", "resolve", *options)
        assert status == 0
        assert list(backend.recurring) == [*others, told.split()[-1]]


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_each_pipeline_is_taken_and_runs_without_a_parameter(command, pipeline: str) -> None:
    with serving() as backend:
        status, told, problem = command("upload", pipeline, "--host", backend.url, "--name", "mine")
        assert status == 0, problem
        [(identifier, made)] = backend.pipelines.items()
        assert made["display_name"] == "mine"
        assert told.split()[-2:] == [identifier, backend.versions[identifier][0]["pipeline_version_id"]]
        assert command("schedule", pipeline, "--host", backend.url, "--cron", "0 30 4 * * 1")[0] == 0
        [run] = backend.recurring.values()
        assert run["trigger"]["cron_schedule"]["cron"] == "0 30 4 * * 1"
        assert (run["no_catchup"], int(run["max_concurrency"])) == (True, 1)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--set", "workspaec=/workspace"], "workspaec"),
        (["--set", 'settings={"solve": {"epochs": 2}}'], "epochs: is no option of solve; there are: workers, on_alarm"),
        (["--set", "settings=fast"], "settings: must be an object"),
        (["--set", "ray_job=7"], "ray_job: must be str"),
        (["--set", "metrics_urls=/metrics"], "metrics_urls"),
        (["--cron", "2 * * * *"], "6 fields"),
        # The first is taken, and taken back.
        (["--cron", "0 2 * * * *", "--cron", "0 5-65/5 23 * * *"], "5-65/5"),
    ],
)
def test_a_schedule_that_would_not_run_leaves_the_earlier_one(command, options: list[str], named: str) -> None:
    with serving() as backend:
        assert command("schedule", "resolve", "--host", backend.url)[0] == 0
        before = dict(backend.recurring)
        status, _, problem = command("schedule", "resolve", "--host", backend.url, *options)
        assert status == 1
        [told] = [line for line in problem.splitlines() if line.startswith("failed: ")]
        assert named in told
        assert backend.recurring == before


def test_what_was_made_is_told_as_json(command, tmp_path) -> None:
    with serving() as backend:
        made = json.loads(command("upload", "train", "--host", backend.url, "--json")[1].splitlines()[-1])
        assert made == {
            "pipeline_id": next(iter(backend.pipelines)),
            "version_id": backend.versions[made["pipeline_id"]][0]["pipeline_version_id"],
        }
        planned = json.loads(command("schedule", "resolve", "--host", backend.url, "--json")[1].splitlines()[-1])
        assert planned == {"recurring_run_ids": list(backend.recurring)}
    written = json.loads(command("compile", str(tmp_path), "--json")[1].splitlines()[-1])
    assert written == {name: str(tmp_path / f"{name}.yaml") for name in PIPELINES}
    assert {str(path) for path in tmp_path.iterdir()} == set(written.values())


def test_the_list_names_each_pipeline_its_inputs_and_the_jobs_whose_options_it_takes(command) -> None:
    listed = json.loads(command("list", "--json")[1])
    assert [each["name"] for each in listed] == list(PIPELINES)
    for each in listed:
        inputs, jobs = PARAMETERS[each["name"]]
        # In the order of a form.
        assert (list(each["inputs"]), list(each["settings"])) == (sorted(inputs), list(jobs))
        assert each["inputs"]["workspace"]["default"] == "/workspace"
    assert listed[-1]["settings"]["train"].items() >= {"epochs": 30, "workers": 0, "ray_job": ""}.items()
    text = command("list")[1]
    assert all(f"\n{each['name']} " in f"\n{text}" for each in listed)
    assert max(map(len, text.splitlines())) < 200
    with serving() as backend:
        assert command("upload", "embed", "--host", backend.url)[0] == 0
        [made] = backend.pipelines.values()
        assert made["description"] == "Embed the accounts that came after training."


def test_a_run_here_asks_for_its_folder(command) -> None:
    status, _, problem = command("run", "train")
    assert status == 1
    assert "--set workspace=" in problem


def test_a_backend_that_is_away_is_named_in_one_line(command) -> None:
    status, _, problem = command("upload", "train", "--host", "http://127.0.0.1:1")
    assert status == 1
    assert "127.0.0.1:1" in problem
    assert len(problem.strip().splitlines()) == 1


def test_without_names_nothing_of_a_cluster_is_named(command, tmp_path) -> None:
    assert command("compile", str(tmp_path))[0] == 0
    for pipeline in PIPELINES:
        text = (tmp_path / f"{pipeline}.yaml").read_text()
        for name in ("pvcMount", "secretAsEnv", "secretAsVolume", "imagePullSecret"):
            assert name not in text


@pytest.mark.parametrize("wrong", ["workspace", "=x"])
def test_a_parameter_without_a_value_is_refused(command, wrong: str) -> None:
    status, _, problem = command("run", "resolve", "--set", wrong)
    assert status == 2
    assert "NAME=VALUE" in problem
