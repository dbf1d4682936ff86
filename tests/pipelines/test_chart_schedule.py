"""The chart's schedule of the re-solve: its command, run for real against a backend, makes a run of this release."""

import os
import subprocess
import sys
from typing import Any

import pytest
import yaml
from kfp.client import KF_PIPELINES_SA_TOKEN_ENV, KF_PIPELINES_SA_TOKEN_PATH
from kfp_backend import Backend, serving
from kfp_users import Users
from rendering import CHART, merged, parse, render, values_of

from pipelines.placement import PROMETHEUS_MOUNT

HOOKS = {"spring-schedule": "post-install,post-upgrade,post-rollback", "spring-unschedule": "pre-delete"}
KUBEFLOW = values_of(CHART / "ci" / "kubeflow-values.yaml")


def job(values: dict[str, Any], name: str) -> dict[str, Any]:
    [found] = [entry for entry in render(values) if (entry["kind"], entry["metadata"]["name"]) == ("Job", name)]
    return found


def container(values: dict[str, Any], name: str = "spring-schedule") -> dict[str, Any]:
    [found] = job(values, name)["spec"]["template"]["spec"]["containers"]
    return found


def options(values: dict[str, Any]) -> dict[str, str]:
    """The flags of the schedule's command."""
    pairs = [each.partition("=") for each in container(values)["args"] if each.startswith("--") and "--set" not in each]
    return {name: value for name, _, value in pairs}


def ran(container: dict[str, Any], backend: Backend, environment: dict[str, str]) -> None:
    """Run the command of a container against a backend."""
    arguments = [f"--host={backend.url}" if each.startswith("--host=") else each for each in container["args"][1:]]
    subprocess.run([sys.executable, "-W", "ignore", *arguments], check=True, env={**os.environ, **environment})


def users(values: dict[str, Any]) -> Users:
    """Access that the release's RoleBinding and projected token give the pods of its role."""
    [bound] = [entry for entry in render(values) if entry["metadata"]["name"] == "spring-pipelines"]
    assert bound["roleRef"]["name"] == "kubeflow-pipelines-edit"
    [account] = bound["subjects"]
    pod = job(values, "spring-schedule")["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account["name"]
    [volume] = [each for each in pod["volumes"] if each["name"] == "pipelines-token"]
    [source] = volume["projected"]["sources"]
    name = f"system:serviceaccount:{account['namespace']}:{account['name']}"
    return Users(
        tokens={"good": (name, source["serviceAccountToken"]["audience"])}, edit={(name, account["namespace"])}
    )


def test_the_schedule_of_a_release_runs_on_its_image_with_its_claim_and_secrets(tmp_path) -> None:
    values = KUBEFLOW
    for path, value in {
        "imagePullSecrets": [{"name": "pull"}, {"name": "mirror"}],
        "images.pipeline": {"repository": "registry.example:5000/pipeline", "tag": "1.2.3"},
        "workspace": {"existingClaim": "campaigns", "subPath": "spring"},
        "features.online.redis": {"existingSecret": "online", "key": "address"},
        "auth": {"existingSecret": "callers", "key": "bearer"},
        "watch": {"enabled": False},
        "resolve.prometheusUrl": "https://prometheus",
        "resolve.prometheus": {"existingSecret": "monitoring", "tokenKey": "bearer", "caKey": "authority"},
    }.items():
        values = merged(values, path, value)
    found = container(values)
    environment = {entry["name"]: entry["value"] for entry in found["env"]} | {"HOME": os.environ.get("HOME", "/tmp")}
    assert found["args"][:5] == ["python", "-m", "pipelines", "schedule", "resolve"]
    [mounted] = [each for each in found["volumeMounts"] if each["name"] == "pipelines-token"]
    assert mounted["mountPath"] == os.path.dirname(KF_PIPELINES_SA_TOKEN_PATH)
    (tmp_path / "token").write_text("good")
    environment |= {KF_PIPELINES_SA_TOKEN_ENV: str(tmp_path / "token")}
    with serving(users(values)) as backend:
        ran(found, backend, environment)
        runs = list(backend.recurring.values())
        # Another release of the namespace keeps its own.
        other = dict(runs[0], recurring_run_id="other", display_name="autumn-resolve")
        backend.recurring["other"] = other
        ran(container(values, "spring-unschedule"), backend, environment)
        assert list(backend.recurring) == ["other"]
    # One for each CronJob that the release would have in its place, at the same times.
    jobs = [entry for entry in render(merged(values, "resolve", {"by": "cronjob"})) if entry["kind"] == "CronJob"]
    assert [run["trigger"]["cron_schedule"]["cron"] for run in runs] == [f"0 {job['spec']['schedule']}" for job in jobs]
    assert len(runs) == 2
    for run in runs:
        assert run["display_name"] == "spring-resolve"
        assert (run["no_catchup"], int(run["max_concurrency"])) == (True, 1)
        assert run["runtime_config"]["parameters"] == {
            "workspace": "/workspace",
            "settings": {
                "ledger_url": "http://spring-ledger.growth.svc:8081",
                "prometheus_url": "https://prometheus",
                "prometheus_labels": "namespace=growth",
                "prometheus_token_file": f"{PROMETHEUS_MOUNT}/bearer",
                "prometheus_ca_file": f"{PROMETHEUS_MOUNT}/authority",
                "ray_job": "spring-ray-job",
            },
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
    [secret] = steps["exec-measure"]["secretAsEnv"]
    assert (secret["secretName"], secret["keyToEnv"][0]["secretKey"]) == ("callers", "bearer")
    # The key of a secret is the name of its file.
    mounted = {name: step["secretAsVolume"] for name, step in steps.items() if "secretAsVolume" in step}
    [[volume]] = mounted.values()
    assert [*mounted] == ["exec-measure"]
    assert (volume["secretName"], volume["mountPath"]) == ("monitoring", PROMETHEUS_MOUNT)


@pytest.mark.parametrize(
    ("path", "value", "without"),
    [
        ("features.online.store", "sqlite", {"--redis-secret", "--redis-key"}),
        ("campaign", "spring", {"--sub-path", "--pull-secrets", "--prometheus-secret"}),
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


def test_a_kubeflow_of_one_user_gets_no_token_and_its_release_is_in_its_namespace() -> None:
    values = merged(KUBEFLOW, "resolve.kfp.multiUser", False)
    with pytest.raises(Exception, match="install the release in kubeflow"):
        render(values)
    values = merged(values, "resolve.kfp.host", "http://ml-pipeline.growth.svc:8888")
    assert "spring-pipelines" not in {entry["metadata"]["name"] for entry in render(values)}
    pod = job(values, "spring-schedule")["spec"]["template"]["spec"]
    assert [each["name"] for each in pod["volumes"]] == ["scratch"]


def test_hooks_delete_the_schedules_before_the_release_ends_and_go_themselves() -> None:
    objects = render(KUBEFLOW)
    release = {(each["kind"], each["metadata"]["name"]) for each in objects if not hooks_of(each)}
    for name, when in HOOKS.items():
        made = job(KUBEFLOW, name)
        notes = made["metadata"]["annotations"]
        # A finished hook may be read; the next one of its name takes its place. Helm keeps hooks when a release goes.
        assert (notes["helm.sh/hook"], notes["helm.sh/hook-delete-policy"]) == (when, "before-hook-creation")
        assert made["spec"]["ttlSecondsAfterFinished"] == 86_400
        # Helm waits so long for a hook by default, and the release's own objects are there meanwhile.
        assert made["spec"]["activeDeadlineSeconds"] < 300
        assert ("ServiceAccount", made["spec"]["template"]["spec"]["serviceAccountName"]) in release
    assert ("RoleBinding", "spring-pipelines") in release
    assert {hooks_of(each) for each in objects} == {"", "test", *HOOKS.values()}


def hooks_of(entry: dict[str, Any]) -> str:
    return str(entry["metadata"].get("annotations", {}).get("helm.sh/hook", ""))
