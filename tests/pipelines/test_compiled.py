"""The pipelines as they are uploaded: what their YAML says of parameters, steps and the cluster."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.settings import options_of
from operations.common.job import JOBS
from pipelines.local import PIPELINES
from pipelines.parameters import usual
from pipelines.placement import LABEL

IMAGE = "registry.example/shadowprice/pipeline:1.2.3"
NAMES = {
    "--claim": "campaigns",
    "--sub-path": "spring",
    "--redis-secret": "redis",
    "--redis-key": "address",
    "--token-secret": "callers",
    "--token-key": "bearer",
    "--pull-secrets": "one,two",
}
# What depends on nothing but the artifacts it is given; everything else reads a file, a clock or a service.
CACHED = {
    "train": {"train"},
    "retrain": {"train"},
    "delivery": {"train"},
    "vouchers": {"train"},
}
# Who opens the feature store; what is in the library below it cannot.
STORE = {
    "train": {"featurize", "register"},
    "retrain": {"featurize", "register", "promote"},
    "embed": {"featurize", "embed"},
    "resolve": {"solve", "publish"},
    "decide": {"decide"},
    "delivery": {"featurize", "register", "solve", "publish"},
    "vouchers": {"featurize", "register", "solve", "publish"},
}
LEDGER = {"resolve": {"measure"}, "decide": {"decide"}, "delivery": {"measure"}, "vouchers": {"measure"}}
ON_RAY = {
    "train": {"featurize", "train"},
    "retrain": {"featurize", "train"},
    "resolve": {"solve"},
    "decide": {"decide"},
    "delivery": {"featurize", "train", "solve"},
    "vouchers": {"featurize", "train", "solve"},
}

each_pipeline = pytest.mark.parametrize("name", PIPELINES)


def compiled(folder: Path, *options: str) -> dict[str, list[dict[str, Any]]]:
    """Pipeline → documents of its YAML. A pipeline is built when imported, so one process compiles for one cluster."""
    command = [sys.executable, "-W", "ignore", "-m", "pipelines", "compile", str(folder), *options]
    subprocess.run(command, check=True, env={**os.environ, "SHADOWPRICE_PIPELINE_IMAGE": IMAGE})
    return {name: list(yaml.safe_load_all((folder / f"{name}.yaml").read_text())) for name in PIPELINES}


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    options = [part for pair in NAMES.items() for part in pair]
    return compiled(tmp_path_factory.mktemp("compiled"), *options)


def tasks(spec: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every task that has an executor, at the root or inside a condition or a loop."""
    dags = [spec["root"]["dag"], *(entry["dag"] for entry in spec["components"].values() if "dag" in entry)]
    for dag in dags:
        for name, task in dag["tasks"].items():
            if "executorLabel" in spec["components"][task["componentRef"]["name"]]:
                yield name, task


def artifact_flows(
    dag: dict[str, Any], components: dict[str, Any], outer: dict[str, str] | None = None
) -> Iterator[tuple[str, set[str]]]:
    """Each task that runs → the tasks whose artifacts it reads, also from around a condition that it is in."""
    for name, task in dag["tasks"].items():
        made_by = {
            key: given["taskOutputArtifact"]["producerTask"]
            if "taskOutputArtifact" in given
            else (outer or {})[given["componentInputArtifact"]]
            for key, given in task.get("inputs", {}).get("artifacts", {}).items()
        }
        component = components[task["componentRef"]["name"]]
        if "dag" in component:
            yield from artifact_flows(component["dag"], components, made_by)
        else:
            yield name, set(made_by.values())


def ancestors(task: str, flows: dict[str, set[str]]) -> set[str]:
    """Every task whose artifacts a task reads, at once or through others."""
    found, queue = set(), [task]
    while queue:
        new = flows.get(queue.pop(), set()) - found
        found |= new
        queue += new
    return found


def with_secret(placed: dict[str, Any], key: str) -> set[str]:
    return {label.removeprefix("exec-") for label, place in placed.items() if key in place}


def seconds(text: str) -> float:
    return float(text.removesuffix("s"))


def memory(text: str) -> int:
    digits, unit = re.fullmatch(r"(\d+)(Mi|Gi)", text).groups()
    return int(digits) * {"Mi": 1, "Gi": 1024}[unit]


@each_pipeline
def test_every_parameter_is_described_and_has_a_default(pipelines, name: str) -> None:
    parameters = pipelines[name][0]["root"]["inputDefinitions"]["parameters"]
    assert all(len(parameter.get("description", "")) > 10 for parameter in parameters.values()), parameters
    # No form of the UI has to be filled in; the workspace is where the claim is mounted.
    assert [key for key, parameter in parameters.items() if "defaultValue" not in parameter] == []
    assert parameters["workspace"]["defaultValue"] == "/workspace"


@each_pipeline
def test_a_form_has_few_inputs_and_one_object_that_names_every_other_option(pipelines, name: str) -> None:
    """The API server and the compiler sort parameters by name; a form shows them in that order."""
    parameters = pipelines[name][0]["root"]["inputDefinitions"]["parameters"]
    assert list(parameters) == sorted(parameters)
    assert [*parameters][-2:] == ["settings", "workspace"]
    assert set(parameters) <= {"data", "dataset", "log", "settings", "workspace"}
    assert parameters["settings"]["parameterType"] == "STRUCT"
    assert parameters["settings"]["defaultValue"] == {}
    for job, options in usual(name).items():
        *_, after = parameters["settings"]["description"].partition(f" {job}: ")
        found, _ = json.JSONDecoder().raw_decode("{" + after.partition("; ")[0] + "}")
        assert found == options


PRICED = ("delivery", "vouchers")


@pytest.mark.parametrize("name", PRICED)
def test_every_step_that_reads_tables_has_a_path_of_artifacts_to_the_price(pipelines, name: str) -> None:
    """Kubeflow's lineage follows artifacts alone: an order of two steps without one breaks it."""
    spec = pipelines[name][0]
    flows = dict(artifact_flows(spec["root"]["dag"], spec["components"]))
    readers = {task for task, made_by in flows.items() if "prepare" in made_by}
    assert {"featurize", "evaluate", "solve"} <= readers
    ways = {task: ancestors("publish", flows) for task in readers}
    assert {task for task, found in ways.items() if task not in found} == set()
    # The spend is read for the model that the tables made.
    assert "prepare" in ancestors("measure", flows)


@each_pipeline
def test_pipelines_and_steps_are_named_in_words(pipelines, name: str) -> None:
    spec = pipelines[name][0]
    assert spec["pipelineInfo"]["name"] == f"shadowprice-{name}"
    assert re.fullmatch(r"[A-Z][a-z ]{5,40}", spec["pipelineInfo"]["displayName"])
    assert re.fullmatch(r"[A-Z][^.]{10,}\.", spec["pipelineInfo"]["description"])
    shown = [entry["taskInfo"]["name"] for _, entry in tasks(spec)]
    assert all(re.fullmatch(r"[A-Z][a-z ]{5,40}", title) for title in shown)
    assert dict(zip(dict(tasks(spec)), shown, strict=True)).get("gate-refused", "Model refused") == "Model refused"


@each_pipeline
def test_the_first_step_learns_whether_the_workspace_can_be_written(pipelines, name: str) -> None:
    given = {task: entry["inputs"]["parameters"] for task, entry in tasks(pipelines[name][0])}
    first = next(step for step in ("prepare", "measure", "decide") if step in given)
    assert "workspace" in given[first]


@each_pipeline
def test_no_step_stands_in_a_queue(pipelines, name: str) -> None:
    """The quota of a step that waits for its RayJob could be what the job waits for."""
    assert "kueue" not in str(pipelines[name])


@each_pipeline
def test_only_what_nothing_but_its_inputs_decides_is_cached(pipelines, name: str) -> None:
    found = {task for task, entry in tasks(pipelines[name][0]) if entry["cachingOptions"].get("enableCache")}
    assert found == CACHED.get(name, set())


@each_pipeline
def test_every_step_is_tried_again_has_resources_and_the_image_that_was_named(pipelines, name: str) -> None:
    spec = pipelines[name][0]
    for task, entry in tasks(spec):
        assert entry["retryPolicy"].get("maxRetryCount", 0) == (0 if task == "gate-refused" else 2), task
        assert entry["retryPolicy"]["backoffDuration"] == "30s", task
    executors = spec["deploymentSpec"]["executors"]
    assert len(executors) == len(dict(tasks(spec)))
    for executor in executors.values():
        container = executor["container"]
        assert container["image"] == IMAGE
        resources = container["resources"]
        assert resources["resourceCpuRequest"]
        assert memory(resources["resourceMemoryRequest"]) <= memory(resources["resourceMemoryLimit"])


@each_pipeline
def test_the_last_try_of_a_step_has_its_whole_deadline(pipelines, name: str) -> None:
    """Argo ends every try at the maximum after the start of the first, 3600 s unless it is set."""
    spec, platform = pipelines[name]
    placed = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    for task, entry in tasks(spec):
        policy = entry["retryPolicy"]
        tries = policy.get("maxRetryCount", 0) + 1
        waits = sum(seconds(policy["backoffDuration"]) * policy["backoffFactor"] ** each for each in range(tries - 1))
        label = spec["components"][entry["componentRef"]["name"]]["executorLabel"]
        deadline = int(placed[label]["activeDeadlineSeconds"])
        assert seconds(policy["backoffMaxDuration"]) >= tries * deadline + waits, task


@each_pipeline
def test_every_step_has_a_deadline_the_workspace_and_no_root(pipelines, name: str) -> None:
    spec, platform = pipelines[name]
    placed = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    assert set(placed) == set(spec["deploymentSpec"]["executors"])
    for place in placed.values():
        assert int(place["activeDeadlineSeconds"]) >= 300
        [mount] = place["pvcMount"]
        assert (mount["constant"], mount["mountPath"], mount["subPath"]) == ("campaigns", "/workspace", "spring")
        assert [secret["secretName"] for secret in place["imagePullSecret"]] == ["one", "two"]
        assert place["securityContext"] == {"runAsUser": "10001", "runAsGroup": "10001", "runAsNonRoot": True}


@each_pipeline
def test_a_step_gets_the_secrets_that_it_needs_and_no_others(pipelines, name: str) -> None:
    spec, platform = pipelines[name]
    placed = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    # A volume would have every key of its secret, and so the tokens of other roles.
    assert with_secret(placed, "secretAsVolume") == set()
    labeled = {
        step.removeprefix("exec-")
        for step, place in placed.items()
        if place.get("podMetadata", {}).get("labels") == {LABEL[0]: LABEL[1]}
    }
    assert labeled == LEDGER.get(name, set())
    assert with_secret(placed, "secretAsEnv") == STORE.get(name, set()) | labeled
    for step in STORE.get(name, set()):
        secrets = {each["secretName"]: each for each in placed[f"exec-{step}"]["secretAsEnv"]}
        assert set(secrets) == ({"redis", "callers"} if step in labeled else {"redis"})
        assert secrets["redis"]["keyToEnv"] == [{"envVar": "SHADOWPRICE_REDIS", "secretKey": "address"}]
    for step in labeled:
        *_, secret = sorted(placed[f"exec-{step}"]["secretAsEnv"], key=lambda each: each["secretName"] == "callers")
        assert secret["secretName"] == "callers"
        assert secret["keyToEnv"] == [{"envVar": "SHADOWPRICE_LEDGER_TOKEN", "secretKey": "bearer"}]
        assert "env" not in spec["deploymentSpec"]["executors"][f"exec-{step}"]["container"]
    # Secrets are named; the environment of the compiling process is not copied.
    assert "registry.example" not in yaml.safe_dump(platform)


@each_pipeline
def test_steps_that_share_work_may_run_as_ray_jobs(pipelines, name: str) -> None:
    spec = pipelines[name][0]
    given = {task: entry["inputs"].get("parameters", {}) for task, entry in tasks(spec) if task in JOBS}
    told = {task for task, found in given.items() if "options" in found and "ray_job" in options_of(task)}
    assert told == ON_RAY.get(name, set())
    # The job's pods share nothing but the workspace with the step.
    assert all("workspace" in given[task] for task in told)


def test_registration_waits_for_the_gate(pipelines) -> None:
    root = pipelines["train"][0]["root"]["dag"]["tasks"]
    branches = pipelines["train"][0]["components"]["comp-condition-branches-1"]["dag"]["tasks"].values()
    gate = {branch["taskInfo"]["name"]: branch["triggerPolicy"]["condition"] for branch in branches}
    assert "evaluate" in gate["gate-passed"]
    assert gate["gate-refused"] == f"!({gate['gate-passed']})"
    assert "register" not in root
    for name in ("train", "retrain", "delivery"):
        refused = dict(tasks(pipelines[name][0]))["gate-refused"]
        assert set(refused["inputs"]["artifacts"]) == {"model", "evaluation", "page"}
        assert "maxRetryCount" not in refused["retryPolicy"]
        assert "register" not in pipelines[name][0]["root"]["dag"]["tasks"]
