"""``shadowprice doctor --namespace``: one sentence for each fault of a release on a shared platform, and silence."""

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kubectl_stand_in import install
from rendering import CHART, NAMESPACE, Objects, definition, drop_property, merged, render, values_of

from cli.doctor.cluster import release
from cli.doctor.finding import Finding, Target

VALUES = values_of(CHART / "ci" / "kubeflow-values.yaml")
IMAGE = "quay.io/kuberay/operator:v1.5.1"
DEFINITIONS = {"RayCluster": ("spec",), "RayJob": ("spec", "rayClusterSpec")}
Doctor = Callable[..., list[Finding]]


def entry(kind: str, name: str, labels: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name, "labels": labels or {}}, **more}


def chart(changes: dict[str, Any], namespace: str = NAMESPACE, name: str = "spring") -> Objects:
    """Objects of a release, as the API server keeps them."""
    values = VALUES
    for path, value in changes.items():
        values = merged(values, path, value)
    text = json.dumps(
        [each for each in render(values, release=name) if not each["metadata"]["name"].endswith("boards")]
    )
    objects: Objects = json.loads(text.replace(f'namespace=\\"{NAMESPACE}', f'namespace=\\"{namespace}'))
    for each in objects:
        each["metadata"]["namespace"] = namespace
    return objects


def kuberay(crds: Path, kind: str) -> dict[str, Any]:
    """KubeRay's definition of a kind, of whose spec only the token's settings are kept."""
    crd = copy.deepcopy(definition(crds, "ray.io", kind))
    for version in crd["spec"]["versions"]:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        for step in DEFINITIONS[kind]:
            spec = spec if step == "spec" else spec["properties"][step]
        kept = {
            "properties": {name: spec["properties"][name] for name in ("authOptions",) if name in spec["properties"]}
        }
        nested = kept if kind == "RayCluster" else {"properties": {"rayClusterSpec": kept}}
        version["schema"]["openAPIV3Schema"]["properties"] = {"spec": nested}
    return crd


@pytest.fixture
def doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crds: Path) -> Doctor:
    """Examine a namespace of a mesh with a queue and KubeRay, and what is added."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    whole = {kind: kuberay(crds, kind) for kind in DEFINITIONS}

    def run(
        changes: dict[str, Any] | None = None,
        labels: dict[str, str] | None = None,
        others: Objects | None = None,
        image: str = IMAGE,
        old: str = "",
        **given: Any,
    ) -> list[Finding]:
        ray = copy.deepcopy(whole)
        values = {"networkPolicy.mesh": "sidecar", "kueue.queue": "spare", **(changes or {})}
        operator = entry("Pod", "kuberay", {"app.kubernetes.io/component": "kuberay-operator"})
        operator["spec"] = {"containers": [{"image": image}]}
        if old:
            [version] = [each for each in ray[old]["spec"]["versions"] if each["name"] == "v1"]
            drop_property(version["schema"]["openAPIV3Schema"], *DEFINITIONS[old], "authOptions")
        platform = [
            entry("Namespace", NAMESPACE, labels or {"istio-injection": "enabled"}),
            entry("LocalQueue", "spare"),
            operator,
        ]
        install(tmp_path, [*platform, *ray.values(), *chart(values), *(others or [])], **given)
        return list(release(Target(namespace=NAMESPACE)))

    return run


def told(found: list[Finding]) -> str:
    [only] = found
    assert not only.note
    return only.sentence


def test_a_release_that_says_what_the_platform_has_is_no_fault(doctor: Doctor) -> None:
    assert doctor(others=chart({}, namespace="staging")) == []
    assert doctor({"networkPolicy.mesh": "ambient"}, labels={"istio.io/dataplane-mode": "ambient"}) == []
    assert doctor({"networkPolicy.enabled": False}) == []
    # Without a queue, a mesh and Ray nothing is asked of the platform.
    bare = {"kueue.queue": "", "networkPolicy.mesh": "none", "training.steps.enabled": False}
    bare["resolve.kfp.onRay"] = False
    absent = ["localqueues", "rayjobs", "rayclusters", "prometheusrules"]
    assert doctor(bare, labels={"a": "b"}, image="kuberay/operator:v1.4.0", old="RayJob", absent=absent) == []


@pytest.mark.parametrize(
    ("labels", "mesh"),
    [
        ({"istio-injection": "enabled"}, "sidecar"),
        ({"istio.io/rev": "stable"}, "sidecar"),
        ({"istio.io/dataplane-mode": "ambient", "istio.io/rev": "stable"}, "ambient"),
    ],
)
def test_a_mesh_without_its_value_is_named(doctor: Doctor, labels: dict[str, str], mesh: str) -> None:
    assert told(doctor({"networkPolicy.mesh": "none"}, labels=labels)) == (
        f"namespace growth is part of a mesh ({mesh}) that the network policies shut out; "
        f"set networkPolicy.mesh to {mesh}."
    )


def test_a_queue_that_is_missing_is_named(doctor: Doctor) -> None:
    expected = (
        "namespace growth has no LocalQueue busy, for which jobs of the release wait; "
        "make the queue, or set kueue.queue to one that is there."
    )
    assert told(doctor({"kueue.queue": "busy"})) == expected
    # The re-solve's own jobs, where no step runs on Ray.
    alone = {"kueue.queue": "busy", "resolve": {"by": "cronjob"}, "training.steps.enabled": False}
    assert told(doctor(alone, absent=["localqueues"])) == expected


@pytest.mark.parametrize("old", DEFINITIONS)
def test_an_old_definition_of_kuberay_is_named(doctor: Doctor, old: str) -> None:
    assert told(doctor(old=old)) == (
        f"the definition {old.lower()}s.ray.io has no authOptions, so Ray clusters run without a token; "
        "upgrade KubeRay, its definitions and its operator, to 1.5.1 or later."
    )
    assert doctor({"training.ray.auth": "disabled"}, old=old) == []


def test_an_old_operator_of_kuberay_is_named(doctor: Doctor) -> None:
    sentence = told(doctor(image="registry.example:5000/kuberay/operator:v1.4.2"))
    assert sentence.startswith("the operator of KubeRay is 1.4.2, and gives Ray clusters no token; upgrade KubeRay")
    assert doctor(image="quay.io/kuberay/operator@sha256:" + "0" * 64) == []


def test_a_prometheus_that_mixes_releases_is_named(doctor: Doctor) -> None:
    # Staging has taken the namespace out of its selectors: its alerts count production's money.
    staging = chart({"monitoring.selectors": {"namespace": None}}, namespace="staging")
    assert told(doctor(others=staging)) == (
        "on one Prometheus release spring of namespace staging also counts campaign spring of release spring of "
        "namespace growth; set monitoring.selectors.namespace of release spring."
    )
    # Two releases of one namespace have the same selectors by default.
    other = chart({"nameOverride": "may"}, name="may")
    assert [each.sentence.partition("; ")[2] for each in doctor(others=other)] == [
        "set monitoring.selectors.app_kubernetes_io_instance of release spring.",
        "set monitoring.selectors.app_kubernetes_io_instance of release may.",
    ]
    apart = {"monitoring.selectors": {"app_kubernetes_io_instance": "may"}, "nameOverride": "may"}
    own = {"monitoring.selectors": {"app_kubernetes_io_instance": "spring"}}
    assert doctor(own, others=chart(apart, name="may")) == []
    assert doctor(others=chart({"campaign": "autumn"}, name="may")) == []


def test_the_wrong_namespace_and_no_cluster_are_named(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    doctor()
    assert told(list(release(Target(namespace="autumn")))) == (
        'kubectl cannot read namespace autumn: (NotFound): namespaces "autumn" not found; '
        "correct --namespace, or the cluster that kubectl speaks to."
    )
    monkeypatch.setenv("PATH", "")
    assert "cannot read namespace growth: kubectl is not on the path" in told(list(release(Target(namespace="growth"))))
    # Who calls pipelines from outside needs no kubectl.
    [note] = release(Target(namespace=NAMESPACE, pipelines_url="http://pipelines"))
    assert note.note


def test_a_namespace_without_a_release_is_named(doctor: Doctor) -> None:
    assert "namespace growth has no release of the chart" in told(doctor(absent=["inferenceservices"]))


def test_what_nobody_may_read_is_a_note_and_the_rest_is_checked(doctor: Doctor) -> None:
    found = doctor({"kueue.queue": "busy"}, forbidden="prometheusrules")
    assert [(each.check, each.note) for each in found] == [("queue", False), ("monitoring", True)]
    assert "monitoring was not checked: (Forbidden)" in found[1].sentence
