"""The checks of ``make test-cluster`` that need operators, against a stand-in of kubectl: what they take and refuse."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import operators
import pytest
from commands import Cluster
from kubectl_stand_in import install
from operators import Missing, cluster_of, pipeline, ray_job, reconciled, resolved
from rendering import CHART, NAMESPACE, merged, render, values_of

VALUES = values_of(CHART / "ci" / "kubeflow-values.yaml")
Checked = Callable[..., str]


def condition(kind: str, status: str, **more: str) -> dict[str, Any]:
    return {"type": kind, "status": status, **more}


def status(**fields: Any) -> dict[str, Any]:
    return {"status": fields}


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checked:
    """Why a check fails on a cluster where objects become what is given; empty where it passes."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(operators, "POLL_SECONDS", 0.0)
    objects = render(merged(VALUES, "resolve.by", "cronjob"), release="spring")
    helm = tmp_path / "helm"

    def run(
        check: Callable[..., None], *, helm_fails: str = "", more: Any = (), seconds: float = 0.4, **given: Any
    ) -> str:
        helm.write_text(f"#!/bin/sh\necho '{helm_fails}' >&2\ntest -z '{helm_fails}'\n")
        helm.chmod(0o755)
        install(tmp_path, [*objects, *more], **given)
        try:
            check(Cluster(str(helm), tmp_path, NAMESPACE, "", name="spring"), seconds)
        except AssertionError as error:
            return str(error).partition("\n")[0]
        finally:
            kept = json.loads((tmp_path / "objects.json").read_text())["objects"]
            assert [each for each in kept if "check" in each["metadata"]["name"]] == []
        return ""

    return run


def test_a_predictor_must_become_ready_and_answer(told: Checked) -> None:
    waiting = status(conditions=[condition("PredictorReady", "False", reason="Unschedulable", message="no node")])
    ready = status(conditions=[condition("Ready", "True"), condition("Stopped", "False")])
    assert told(reconciled, inferenceservices=[{}, waiting, ready], seconds=30) == ""
    assert "InferenceService spring is not ready: PredictorReady (Unschedulable) no node" in told(
        reconciled, inferenceservices=[waiting]
    )
    assert "does the controller of KServe run?" in told(reconciled, inferenceservices=[{}])
    failed = told(reconciled, inferenceservices=[ready], helm_fails="price is 9 h old")
    assert failed == "the predictor is ready and helm test fails: price is 9 h old"
    assert "release spring of namespace growth has no inferenceservices" in told(
        reconciled, absent=["inferenceservices"]
    )


def test_a_ray_job_must_keep_its_token_run_and_leave_no_cluster(told: Checked) -> None:
    done = status(jobStatus="SUCCEEDED", jobDeploymentStatus="Complete")
    assert told(ray_job, rayjobs=[{}, status(jobDeploymentStatus="Initializing"), done], seconds=30) == ""
    assert "does the operator of KubeRay run?" in told(ray_job, rayjobs=[{}])
    assert "is Initializing: no reason is given" in told(
        ray_job, rayjobs=[{}, status(jobDeploymentStatus="Initializing")]
    )
    assert "failed: AppFailed no module ray" in told(
        ray_job, rayjobs=[{}, status(jobStatus="FAILED", reason="AppFailed", message="no module ray")]
    )
    assert "failed: no reason is given" in told(ray_job, rayjobs=[{}, status(jobDeploymentStatus="ValidationFailed")])
    suspended = {"spec": {"rayClusterSpec": {"authOptions": {"mode": "token"}}, "suspend": True}}
    assert "waits in its queue: has the queue quota for it?" in told(ray_job, rayjobs=[suspended])
    assert "lost its authOptions: upgrade KubeRay" in told(ray_job, rayjobs=[{"spec": {"rayClusterSpec": {}}}])


def test_a_cluster_that_outlives_its_ray_job_is_named(told: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators.uuid, "uuid4", lambda: type("Known", (), {"hex": "abcdef"}))
    labels = {"ray.io/originated-from-cr-name": "spring-check-abcdef"}
    left = {"kind": "RayCluster", "metadata": {"name": "ray-xyz", "labels": labels}}
    assert "the cluster ray-xyz of the finished RayJob spring-check-abcdef is still there" in told(
        ray_job, more=[left], rayjobs=[{}, status(jobStatus="SUCCEEDED")]
    )


def test_a_release_without_the_template_of_ray_jobs_is_not_checked(told: Checked) -> None:
    with pytest.raises(Missing, match="has no configmaps training"):
        told(ray_job, absent=["configmaps"])


def test_a_pipeline_must_end_well_in_time() -> None:
    operators.POLL_SECONDS, before = 0.0, operators.POLL_SECONDS
    try:
        states = iter(["", "RUNNING", "SUCCEEDED"])
        pipeline(lambda: "run-1", lambda run: next(states), 30)
        with pytest.raises(AssertionError, match=r"after 0.01 s run run-1 is RUNNING: do its pods find"):
            pipeline(lambda: "run-1", lambda run: "RUNNING", 0.01)
        with pytest.raises(AssertionError, match="run run-1 is FAILED: its graph in the UI"):
            pipeline(lambda: "run-1", lambda run: "FAILED", 30)
    finally:
        operators.POLL_SECONDS = before


def test_a_resolve_must_complete(told: Checked) -> None:
    assert told(resolved, jobs=[{}, status(conditions=[condition("Complete", "True")])], seconds=30) == ""
    failed = status(conditions=[condition("Failed", "True", reason="BackoffLimitExceeded")])
    assert told(resolved, jobs=[failed], log="the spend is stale") == "the re-solve failed: the spend is stale"
    assert told(resolved, jobs=[failed], log="") == "the re-solve failed: Failed (BackoffLimitExceeded)"
    assert "shows whether its pod started" in told(resolved, jobs=[{}])
    assert "waits in its queue" in told(resolved, jobs=[{"spec": {"suspend": True}}])


@pytest.mark.parametrize("case", ["minimal", "production", "kubeflow"])
def test_the_pipeline_has_the_names_that_the_chart_would_give_it(case: str) -> None:
    values = values_of(CHART / "ci" / f"{case}-values.yaml")
    values = merged(merged(values, "imagePullSecrets", [{"name": "a"}, {"name": "b"}]), "workspace.subPath", "own")
    values = merged(values, "resolve.kfp", {"onRay": False})
    [job] = [
        each
        for each in render(merged(values, "resolve.by", "cronjob"))
        if each["kind"] == "CronJob" and each["metadata"]["name"].endswith("-resolve")
    ]
    flags = {"workspace_claim": "claim", "workspace_sub_path": "sub-path", "ledger_url": "set=ledger_url"}
    found = {f"--{flags.get(name, name.replace('_', '-'))}={value}" for name, value in cluster_of(job).items() if value}
    hooks = [each for each in render(merged(values, "resolve.by", "kfp")) if each["kind"] == "Job"]
    [args] = [
        each["spec"]["template"]["spec"]["containers"][0]["args"]
        for each in hooks
        if each["metadata"]["name"].endswith("-schedule")
    ]
    assert found <= set(args)
    assert len(found) >= 6
