"""Queues of Kueue: what stands in one, what must free its quota, and what is said before its webhook refuses."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from api_server import ApiServer
from rendering import CHART, NAMESPACE, Objects, faults, merged, render, values_of

QUEUE, PRIORITY = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
KUBEFLOW = values_of(CHART / "ci" / "kubeflow-values.yaml")


def queued(queue: str) -> dict[str, Any]:
    """Every job that the chart has, in a queue."""
    values = merged(KUBEFLOW, "kueue", {"queue": queue, "priorityClass": "hourly"})
    for path in ("training.rayJob.enabled", "training.rayCluster.enabled", "promote.enabled", "decide.enabled"):
        values = merged(values, path, True)
    return values


def jobs(objects: Objects) -> dict[str, dict[str, Any]]:
    """Objects that Kueue may suspend: jobs, those that a CronJob makes, and Ray's, also the template of a step's."""
    found = {}
    for entry in objects:
        match entry["kind"]:
            case "Job" | "RayJob" | "RayCluster":
                found[f"{entry['kind']}/{entry['metadata']['name']}"] = entry
            case "CronJob":
                found[f"CronJob/{entry['metadata']['name']}"] = entry["spec"]["jobTemplate"]
            case "ConfigMap" if "rayjob.yaml" in entry["data"]:
                found["step"] = yaml.safe_load(entry["data"]["rayjob.yaml"])
    return found


@pytest.mark.parametrize("by", ["cronjob", "kfp"])
def test_every_job_stands_in_the_queue_and_nothing_else_does(by: str) -> None:
    values = merged(queued("growth"), "resolve.by", by)
    objects = render(merged(values, "resolve.kfp.onRay", False))
    found = jobs(objects)
    assert {name.partition("/")[0] for name in found} >= {"RayJob", "RayCluster", "CronJob", "step"}
    for name, job in found.items():
        labels = job["metadata"]["labels"]
        assert (labels[QUEUE], labels[PRIORITY]) == ("growth", "hourly"), name
    # A pod with the label would be queued once more, and a standing service never ends.
    assert str(objects).count(f"'{QUEUE}'") == len(found) - 1
    assert QUEUE not in str(render(KUBEFLOW))


def test_a_finished_ray_job_frees_its_quota_and_its_pods_at_once(crds: Any) -> None:
    for name, job in jobs(render(queued("growth"))).items():
        if name.startswith("RayJob") or name == "step":
            # Kueue frees the quota when the job has ended; KubeRay deletes the pods after the time to live.
            assert (job["spec"]["shutdownAfterJobFinishes"], job["spec"]["ttlSecondsAfterFinished"]) == (True, 0)
            kept = merged(job, "spec.shutdownAfterJobFinishes", False)
            assert "a job in a queue must delete its cluster" in str(faults(kept, crds))


def test_nothing_decides_on_suspension_but_the_queue() -> None:
    for job in jobs(render(queued("growth"))).values():
        assert "suspend" not in job["spec"]


def ray(kind: str, name: str, queue: str, **spec: Any) -> dict[str, Any]:
    labels = {QUEUE: queue} if queue else {}
    return {"apiVersion": "ray.io/v1", "kind": kind, "metadata": {"name": name, "labels": labels}, "spec": spec}


def test_a_queue_that_may_not_change_is_said_with_the_way_on(server: ApiServer, install: Callable[..., str]) -> None:
    server.keep({"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue", "metadata": {"name": "b"}}, NAMESPACE)
    options = ("kueue.queue=b", "training.rayJob.enabled=true", "training.rayCluster.enabled=true", "checks.crds=false")
    for was in ("a", ""):
        server.keep(ray("RayJob", "spring-train-1", was), NAMESPACE)
        server.keep(ray("RayCluster", "spring-ray", was), NAMESPACE)
        told = install(*options)
        assert f'RayJob spring-train-1 may not change its queue from "{was}" to "b" (kueue.queue): set another' in told
        assert f'RayCluster spring-ray may not change its queue from "{was}" to "b"' in told
        assert "RayJob" not in install(*options, "training.rayJob.run=2")
    # A suspended job may change it, and so may a job whose queue is the same.
    for job in (ray("RayJob", "spring-train-1", "a", suspend=True), ray("RayJob", "spring-train-1", "b")):
        server.keep(job, NAMESPACE)
        server.keep(ray("RayCluster", "spring-ray", "b"), NAMESPACE)
        assert "may not change its queue" not in install(*options)


def test_a_queue_that_is_missing_is_named(server: ApiServer, install: Callable[..., str]) -> None:
    assert "no LocalQueue night (kueue.queue)" in install("kueue.queue=night")
    server.absent = {"kueue.x-k8s.io/v1beta1"}
    assert "no kueue.x-k8s.io/v1beta1 LocalQueue (install Kueue, or" in install("kueue.queue=night", "checks.crds=true")
