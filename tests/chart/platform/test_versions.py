"""Every object that the chart can render passes the definitions of the oldest and of the newest versions."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from rendering import CHART, faults, merged, render, values_of

KUBERNETES = {"oldest": "1.31", "newest": "1.36"}
OLD = {"serving.kserve.io", "ray.io"}
"""Groups of which both ends are there; of the Prometheus operator only one version is."""
UNDEFINED = {"security.istio.io"}
"""Groups without a definition beside the others; test_mesh.py says what their objects are."""
SCALINGS = ("hpa", "keda", "external", "none")
COMBINATIONS = [
    (mesh, ("", "growth")[(each + scaling) % 2 ^ exposed], SCALINGS[scaling], exposed)
    for each, mesh in enumerate(("none", "sidecar", "ambient"))
    for scaling in range(len(SCALINGS))
    for exposed in (False, True)
]
"""Every mesh with every scaling, exposed or not; every pair of values of two settings, a queue among them, occurs."""


def combined(mesh: str, queue: str, by: str, exposed: bool) -> dict[str, Any]:
    """Values with everything that the chart has."""
    values = values_of(CHART / "ci" / "kubeflow-values.yaml")
    for path, value in {
        "networkPolicy.mesh": mesh,
        "networkPolicy.identities": {"enabled": mesh != "none" and exposed, "callers": ["cluster.local/ns/a/sa/b"]},
        "networkPolicy.gateway": {"kubernetes.io/metadata.name": "gateways"},
        "monitoring.podMonitor": {"scheme": "https", "tlsConfig": {"insecureSkipVerify": True}} if exposed else {},
        "kueue.queue": queue,
        "predictor.autoscaling.by": by,
        "predictor.exposed": exposed,
        "training.rayJob.enabled": True,
        "training.rayCluster.enabled": True,
        "console.enabled": True,
        "promote.enabled": True,
        "decide.enabled": True,
        "resolve.by": "kfp" if exposed else "cronjob",
        "resolve.kfp.onRay": exposed,
    }.items():
        values = merged(values, path, value)
    return values


@cache
def problems(text: str, crds: Path, version: str) -> list[str]:
    """Faults of an object; combinations share most of their objects."""
    entry = json.loads(text)
    group = entry["apiVersion"].rpartition("/")[0]
    old = crds / "oldest" if version == "oldest" else crds
    place = old if group in OLD else crds
    return faults(entry, place, KUBERNETES[version])


@pytest.mark.parametrize("given", COMBINATIONS, ids=lambda given: "-".join(str(each or "off") for each in given))
def test_every_combination_passes_at_both_ends(given: tuple[str, str, str, bool], crds: Path) -> None:
    objects = render(combined(*given))
    objects += [
        yaml.safe_load(each["data"]["rayjob.yaml"]) for each in objects if "rayjob.yaml" in each.get("data", {})
    ]
    groups = {entry["apiVersion"].rpartition("/")[0] for entry in objects}
    assert (groups >= UNDEFINED) is (given[0] != "none")
    checked = [entry for entry in objects if entry["apiVersion"].rpartition("/")[0] not in UNDEFINED]
    found = {
        f"{version} {entry['kind']}/{entry['metadata']['name']}": problems(
            json.dumps(entry, sort_keys=True), crds, version
        )
        for version in KUBERNETES
        for entry in checked
    }
    assert {name: each for name, each in found.items() if each} == {}
    assert {"InferenceService", "RayJob", "RayCluster"} <= {entry["kind"] for entry in checked}


def test_the_definitions_of_the_two_ends_differ_so_that_a_new_field_fails_at_the_old_end(crds: Path) -> None:
    objects = render(combined("none", "", "hpa", False))
    [service] = [entry for entry in objects if entry["kind"] == "InferenceService"]
    service = json.loads(json.dumps(service))
    service["spec"]["predictor"]["storageContainerName"] = "default"
    text = json.dumps(service)
    assert problems(text, crds, "newest") == []
    assert "storageContainerName" in str(problems(text, crds, "oldest"))
