"""The chart and the manifests on a real API server: install, upgrade, roll back, drift, refusals and pod security.

No controller is needed: what is tested is admission, Helm's record of a release, and patches. The tests are one story
and run in their order. docs/how-to/check-on-a-cluster.md lists what they check.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from rendering import CASES, CHART, ROOT, pods, render, values_of
from upgrades import chart_of, previous_tag

EXAMPLE = ROOT / "docs" / "examples" / "install" / "values.yaml"
SPACES = {"dev": "shadowprice-dev", "production": "shadowprice"}
BEFORE = os.environ.get("BEFORE") or previous_tag()
"""Tag or commit of the chart that an installed release has."""
SECRETS = {
    "redis": {"connection": "redis:6379"},
    "ledger-redis": {"url": "redis://redis:6379/1", "password": "secret"},
    "callers": {"bearer": "a-token-of-thirty-two-characters"},
}

FIELDS = ("containers", "initContainers", "volumes", "securityContext", "hostNetwork", "hostPID", "hostIPC")
"""Fields of a pod that its security is judged by."""


def installed(cluster: Any, kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cluster.ok(cluster.kubectl("get", kind, name, "-o", "json")))
    return found


def drift(cluster: Any, release: str) -> str:
    """What applying a release's own manifest would change."""
    manifest = cluster.ok(cluster.helm("get", "manifest", release))
    done = cluster.kubectl("diff", "-f", "-", text=manifest)
    assert done.returncode in (0, 1), done.stderr
    return str(done.stdout)


def test_one_sentence_names_every_kind_secret_and_value_that_is_missing(cluster: Any) -> None:
    options = ["--values", str(EXAMPLE), "--set", "campaign=,ledger.store=redis,ledger.redis.existingSecret=books"]
    done = cluster.helm("install", "spring", str(CHART), *options, "--set", "training.rayJob.enabled=true")
    assert done.returncode != 0
    [sentence] = [line for line in done.stderr.splitlines() if "set campaign" in line]
    assert f"namespace {cluster.space} has no Secret redis (features.online.redis)" in sentence
    assert "and no Secret books (ledger.redis)" in sentence
    for group in cluster.bare:
        assert f"no {group}" in sentence
    assert cluster.ok(cluster.helm("list", "--all", "--short")) == ""


def test_definitions_that_are_missing_can_be_applied(cluster: Any, shared_data: Path) -> None:
    folder = Path(os.environ.get("SHADOWPRICE_CRDS", shared_data.parent / "crds"))
    for group in cluster.bare:
        files = [f"--filename={path}" for path in sorted(folder.glob(f"{group.partition('/')[0]}_*.yaml"))]
        cluster.ok(cluster.kubectl("apply", "--server-side", *files))
    for name, data in SECRETS.items():
        cluster.make("Secret", name, stringData=data)
    # Discovery follows the definitions within seconds.
    kinds = "inferenceservices.serving.kserve.io,podmonitors.monitoring.coreos.com,rayjobs.ray.io"
    until = time.monotonic() + 60
    while (done := cluster.kubectl("get", kinds)).returncode and time.monotonic() < until:
        time.sleep(1)
    cluster.ok(done)


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_a_tested_set_of_values_is_taken_and_its_pods_are_restricted(case: Path, cluster: Any) -> None:
    objects = render(values_of(case), release="dry")
    made = [pod for entry in objects for pod in pods(entry) if entry["kind"] != "Pod"]
    for at, pod in enumerate(made):
        # As a controller would make it of a template, by the account that each namespace has.
        spec = {name: pod["spec"][name] for name in FIELDS if name in pod["spec"]}
        objects.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{at}"}, "spec": spec})
    for entry in objects:
        entry["metadata"]["namespace"] = cluster.space
    done = cluster.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", text=yaml.safe_dump_all(objects))
    cluster.ok(done)
    assert "PodSecurity" not in done.stderr
    assert done.stdout.count("serverside-applied (server dry run)") == len(objects)


def test_ten_lines_of_values_install_and_nothing_drifts(cluster: Any) -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 10
    done = cluster.helm("install", "spring", str(CHART), "--values", str(EXAMPLE))
    cluster.ok(done)
    assert "PodSecurity" not in done.stderr
    assert drift(cluster, "spring") == ""
    assert installed(cluster, "inferenceservice", "spring")["spec"]["predictor"]["containers"]


def test_an_upgrade_and_a_rollback_leave_tokens_claims_and_the_training_job_alone(cluster: Any) -> None:
    kept = (("secret", "spring-tokens"), ("pvc", "spring-workspace"), ("rayjob", "spring-train-1"))
    train = ["--set", "training.rayJob.enabled=true"]
    cluster.ok(cluster.helm("upgrade", "spring", str(CHART), "--values", str(EXAMPLE), *train))
    before = [installed(cluster, *each) for each in kept]
    new = ["--set", "images.serving.tag=9.9.9,images.ledger.tag=9.9.9"]
    cluster.ok(cluster.helm("upgrade", "spring", str(CHART), "--values", str(EXAMPLE), *train, *new))
    assert "9.9.9" in json.dumps(installed(cluster, "deployment", "spring-ledger"))
    assert drift(cluster, "spring") == ""
    cluster.ok(cluster.helm("rollback", "spring", "2"))
    assert "9.9.9" not in json.dumps(installed(cluster, "deployment", "spring-ledger"))
    assert drift(cluster, "spring") == ""
    for old, each in zip(before, kept, strict=True):
        now = installed(cluster, *each)
        assert (now["metadata"]["uid"], now.get("spec"), now.get("data")) == (
            old["metadata"]["uid"],
            old.get("spec"),
            old.get("data"),
        )


def test_claims_outlive_a_release_and_another_is_told_of_them(cluster: Any) -> None:
    cluster.ok(cluster.helm("uninstall", "spring"))
    options = ["--values", str(EXAMPLE), "--dry-run=server"]
    done = cluster.helm("install", "may", str(CHART), *options)
    for name, value in (("workspace", "workspace"), ("ledger", "ledger.storage")):
        assert f"the claim spring-{name} is kept from release spring" in done.stderr
        options += ["--set", f"{value}.existingClaim=spring-{name}"]
    cluster.ok(cluster.helm("install", "may", str(CHART), *options))
    # The release of the same name takes its claims up again.
    cluster.ok(cluster.helm("install", "spring", str(CHART), "--values", str(EXAMPLE)))
    cluster.ok(cluster.helm("uninstall", "spring"))


@pytest.mark.skipif(not BEFORE, reason="no release is tagged; set BEFORE=commit")
def test_a_release_of_the_previous_chart_is_upgraded_and_rolled_back(cluster: Any, tmp_path: Path) -> None:
    before = str(chart_of(BEFORE, tmp_path / "before"))
    options = ["--set", "campaign=autumn,features.online.redis.existingSecret=redis"]
    cluster.ok(cluster.helm("install", "autumn", before, *options))
    cluster.ok(cluster.helm("upgrade", "autumn", str(CHART), *options))
    assert drift(cluster, "autumn") == ""
    cluster.ok(cluster.helm("rollback", "autumn", "1"))
    cluster.ok(cluster.helm("uninstall", "autumn"))


@pytest.mark.parametrize("overlay", SPACES)
def test_an_overlay_is_applied_and_nothing_drifts(overlay: str, cluster: Any) -> None:
    folder, space = str(ROOT / "k8s" / "overlays" / overlay), SPACES[overlay]
    if cluster.kubectl("get", "namespace", space).returncode == 0:
        pytest.skip(f"namespace {space} is in use")
    try:
        done = cluster.do("kubectl", "apply", "-k", folder)
        cluster.ok(done)
        assert "PodSecurity" not in done.stderr
        assert cluster.ok(cluster.do("kubectl", "diff", "-k", folder)) == ""
    finally:
        cluster.do("kubectl", "delete", "namespace", space, "--wait=false")
