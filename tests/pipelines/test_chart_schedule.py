"""The chart's schedule of the re-solve: its command, run for real against a backend, makes a run of this release."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import yaml
from kfp_backend import serving
from rendering import CHART, merged, parse, render, values_of

KUBEFLOW = values_of(CHART / "ci" / "kubeflow-values.yaml")


def container(values: dict[str, Any]) -> dict[str, Any]:
    [job] = [entry for entry in render(values) if entry["kind"] == "Job"]
    [found] = job["spec"]["template"]["spec"]["containers"]
    return found


def options(values: dict[str, Any]) -> dict[str, str]:
    """The flags of the schedule's command."""
    pairs = [each.partition("=") for each in container(values)["args"] if each.startswith("--") and "--set" not in each]
    return {name: value for name, _, value in pairs}


def test_the_schedule_of_a_release_runs_on_its_image_with_its_claim_and_secrets() -> None:
    values = KUBEFLOW
    for path, value in {
        "imagePullSecrets": [{"name": "pull"}, {"name": "mirror"}],
        "images.pipeline": {"repository": "registry.example:5000/pipeline", "tag": "1.2.3"},
        "workspace": {"existingClaim": "campaigns", "subPath": "spring"},
        "features.online.redis": {"existingSecret": "online", "key": "address"},
        "auth": {"existingSecret": "callers", "key": "bearer"},
        "watch": {"enabled": False},
    }.items():
        values = merged(values, path, value)
    found = container(values)
    environment = {entry["name"]: entry["value"] for entry in found["env"]} | {"HOME": os.environ.get("HOME", "/tmp")}
    assert found["args"][:5] == ["python", "-m", "pipelines", "schedule", "resolve"]
    with serving() as backend:
        arguments = [f"--host={backend.url}" if each.startswith("--host=") else each for each in found["args"][1:]]
        subprocess.run([sys.executable, "-W", "ignore", *arguments], check=True, env={**os.environ, **environment})
        runs = list(backend.recurring.values())
    # One for each CronJob that the release would have in its place, at the same times.
    jobs = [entry for entry in render(merged(values, "resolve", {"by": "cronjob"})) if entry["kind"] == "CronJob"]
    assert [run["trigger"]["cron_schedule"]["cron"] for run in runs] == [f"0 {job['spec']['schedule']}" for job in jobs]
    assert len(runs) == 2
    for run in runs:
        assert run["display_name"] == "spring-resolve"
        assert (run["no_catchup"], int(run["max_concurrency"])) == (True, 1)
        assert run["runtime_config"]["parameters"] == {
            "workspace": "/workspace",
            "measure_options": {"ledger_url": "http://spring-ledger.growth.svc:8081"},
            "ray_job": "spring-ray-job",
        }
    spec, platform = backend.packages[run["pipeline_version_reference"]["pipeline_version_id"]]
    images = {executor["container"]["image"] for executor in spec["deploymentSpec"]["executors"].values()}
    assert images == {"registry.example:5000/pipeline:1.2.3"}
    steps = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    for step in steps.values():
        [mount] = step["pvcMount"]
        assert (mount["constant"], mount["subPath"]) == ("campaigns", "spring")
        assert [secret["secretName"] for secret in step["imagePullSecret"]] == ["pull", "mirror"]
    for name in ("exec-solve", "exec-publish"):
        [secret] = steps[name]["secretAsEnv"]
        assert (secret["secretName"], secret["keyToEnv"][0]["secretKey"]) == ("online", "address")
    [secret] = steps["exec-measure"]["secretAsVolume"]
    assert secret["secretName"] == "callers"


@pytest.mark.parametrize(
    ("path", "value", "without"),
    [
        ("features.online.store", "sqlite", {"--redis-secret", "--redis-key"}),
        ("campaign", "spring", {"--sub-path", "--pull-secrets"}),
    ],
)
def test_a_schedule_names_no_secret_that_the_release_has_not(path: str, value: str, without: set[str]) -> None:
    given = options(merged(KUBEFLOW, path, value))
    assert not without & set(given)
    if path == "campaign":
        assert (given["--redis-secret"], given["--redis-key"]) == ("redis", "connection")


def test_the_ray_job_that_the_schedule_names_is_rendered_beside_it() -> None:
    [template] = [entry for entry in render(KUBEFLOW) if "rayjob.yaml" in entry.get("data", {})]
    [job] = parse(template["data"]["rayjob.yaml"])
    assert f"--set=ray_job={template['metadata']['name']}" in container(KUBEFLOW)["args"]
    assert job["kind"] == "RayJob"
    assert yaml.safe_dump(job).count("automountServiceAccountToken: false") == 3
