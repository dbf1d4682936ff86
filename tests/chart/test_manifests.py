"""What kubectl users apply is what the chart renders."""

import subprocess
import sys
from pathlib import Path

import pytest
from rendering import ROOT, faults, parse, pods

OVERLAYS = ("dev", "production")


def built(kubectl: str, overlay: str) -> list[dict]:
    folder = ROOT / "k8s" / "overlays" / overlay
    done = subprocess.run([kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return parse(done.stdout)


def test_the_rendered_files_are_what_the_chart_gives_today() -> None:
    command = [sys.executable, "-m", "k8s.render", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr + "run make manifests"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_api_server_would_take_every_object_of_an_overlay(overlay: str, kubectl: str, crds: Path) -> None:
    objects = built(kubectl, overlay)
    found = {f"{entry['kind']}/{entry['metadata']['name']}": faults(entry, crds) for entry in objects}
    assert {name: problems for name, problems in found.items() if problems} == {}
    [space] = [entry["metadata"]["name"] for entry in objects if entry["kind"] == "Namespace"]
    assert {entry["metadata"].get("namespace") for entry in objects} - {None} == {space}
    # Both have objects of the same names, whose addresses hold the namespace.
    assert space == {"dev": "shadowprice-dev", "production": "shadowprice"}[overlay]
    assert f"-ledger.{space}.svc:" in str(objects)


def test_production_takes_every_image_from_the_registry_it_names(kubectl: str) -> None:
    images = {
        container["image"]
        for entry in built(kubectl, "production")
        for pod in pods(entry)
        for container in pod["spec"]["containers"]
    }
    assert images
    assert all(image.startswith("registry.example/") for image in images)


def test_dev_needs_no_operator_besides_kserve(kubectl: str) -> None:
    foreign = {
        entry["apiVersion"]
        for entry in built(kubectl, "dev")
        if "." in entry["apiVersion"].partition("/")[0] and not entry["apiVersion"].partition("/")[0].endswith("k8s.io")
    }
    assert foreign == {"serving.kserve.io/v1beta1"}
