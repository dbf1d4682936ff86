"""Values of the chart that name an option of a job are that option, with its default and a value that the job takes."""

import json
import re
import shlex
from base64 import b64decode
from typing import Any

import pytest
from rendering import CHART, merged, pods, render, values_of

from components.settings import split
from operations.__main__ import main
from operations.common.job import job_class
from operations.promote import PromoteJob
from operations.watch import WatchJob
from pipelines.__main__ import _parameter
from pipelines.parameters import PARAMETERS, arguments_of

VALUES = values_of(CHART / "values.yaml")
KUBERNETES = {"enabled", "schedule", "retrain", "active_deadline_seconds", "backoff_limit", "resources", "extra_env"}
OF_A_RAY_JOB = {"enabled", "run", "campaign", "active_deadline_seconds", "ttl_seconds_after_finished", "backoff_limit"}
"""Values beside the options of a section."""
RUNS = {"recipe": "joint_gnn", "epochs": 400, "dataset": "tables", "data": "/workspace/tables"}
"""Defaults of the chart's training that are not those of the jobs."""


def options_in(section: dict[str, Any], others: set[str]) -> dict[str, Any]:
    """Return the values of a section by the names that Python gives them."""
    named = {re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name): value for name, value in section.items()}
    return {name: value for name, value in named.items() if name not in others}


@pytest.mark.parametrize(("name", "kind"), [("watch", WatchJob), ("promote", PromoteJob)])
def test_a_scheduled_job_gets_the_values_of_its_section(
    name: str, kind: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = options_in(VALUES[name], KUBERNETES)
    fields = {each: field.default for each, field in kind.__dataclass_fields__.items()}
    assert {each: tuple(value) if isinstance(value, list) else value for each, value in options.items()} == {
        each: fields[each] for each in options
    }
    jobs: list[Any] = []
    monkeypatch.setattr("operations.common.job_command.run_here", jobs.append)
    given = {"rate": 0.01, "matureHours": 6, "tolerance": 0.3, "mostDays": 3, "stages": ["50:-0.1"]}
    given = {each: value for each, value in given.items() if each in VALUES[name]}
    base = merged(values_of(CHART / "ci" / "minimal-values.yaml"), "resolve.by", "none")
    [job] = [each for each in render(merged(base, name, {"enabled": True} | given)) if each["kind"] == "CronJob"]
    [container] = [each for pod in pods(job) for each in pod["spec"]["containers"]]
    assert main(container["args"][3:]) == 0
    expected = options_in(given, set())
    assert {each: jobs[0].values()[each] for each in expected} == expected


def test_a_scheduled_list_is_named_like_its_job_and_its_tries_are_one_list(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[Any] = []
    monkeypatch.setattr("operations.common.job_command.run_here", jobs.append)
    base = values_of(CHART / "ci" / "minimal-values.yaml")
    values = merged(base, "decide", {"enabled": True, "budget": 5_000_000, "accounts": "lists/all.parquet"})
    [job] = [each for each in render(values) if each["metadata"]["name"] == "spring-decide"]
    [pod] = pods(job)
    [container] = pod["spec"]["containers"]
    [source] = [each["valueFrom"] for each in container["env"] if each["name"] == "SHADOWPRICE_LIST"]
    assert source == {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/job-name']"}}
    name = "spring-decide-29386800"
    assert main([word.replace("$(SHADOWPRICE_LIST)", name) for word in container["args"][3:]]) == 0
    expected = {"list_name": name, "out": f"/workspace/outbox/{name}.csv", "budget": 5_000_000}
    assert jobs[0].values().items() >= (expected | {"accounts": "/workspace/lists/all.parquet"}).items()
    [token] = [each["secret"] for each in pod["spec"]["volumes"] if each["name"] == "token"]
    [secret] = [each for each in render(values) if each["kind"] == "Secret"]
    held = json.loads(b64decode(secret["data"][token["items"][0]["key"]]))
    assert set(held) == {"read", "authorize"}


def test_the_training_of_the_chart_is_a_run_of_its_pipeline() -> None:
    options = options_in(VALUES["training"]["rayJob"], OF_A_RAY_JOB)
    values = merged(values_of(CHART / "ci" / "minimal-values.yaml"), "training.rayJob.enabled", True)
    [job] = [each for each in render(values) if each["kind"] == "RayJob"]
    words = shlex.split(job["spec"]["entrypoint"])
    assert words[:5] == ["python", "-m", "pipelines", "run", "train"]
    given = dict(_parameter(word.removeprefix("--set=")) for word in words[5:])
    assert given == options | {"workspace": "/workspace", "workers": VALUES["training"]["ray"]["workers"]}
    found = split(arguments_of("train", given)["settings"], PARAMETERS["train"].jobs)
    assert found["train"].items() >= {each: options[each] for each in ("epochs", "precision", "device")}.items()
    fields = job_class("train").__dataclass_fields__
    assert {each: value for each, value in options.items() if each not in RUNS} == {
        each: fields[each].default for each in options if each not in RUNS
    }
    assert {each: options[each] for each in RUNS} == RUNS


def test_the_pacer_on_an_alarm_and_the_addresses_are_options_of_the_hourly_pipeline() -> None:
    values = values_of(CHART / "ci" / "kubeflow-values.yaml")
    for path, value in {"resolve.onAlarm": "pi", "resolve.prometheusUrl": "http://prometheus:9090"}.items():
        values = merged(values, path, value)
    [job] = [each for each in render(values) if each["metadata"]["name"] == "spring-schedule"]
    [container] = job["spec"]["template"]["spec"]["containers"]
    given = dict(_parameter(word.removeprefix("--set=")) for word in container["args"] if word.startswith("--set="))
    found = split(arguments_of("resolve", given)["settings"], PARAMETERS["resolve"].jobs)
    assert found["solve"] == {"on_alarm": "pi", "ray_job": "spring-ray-job"}
    assert set(found["measure"]) == {"ledger_url", "prometheus_url", "prometheus_labels"}
    assert found["measure"]["prometheus_labels"] == "namespace=growth"
