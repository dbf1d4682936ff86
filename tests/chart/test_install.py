"""``helm install`` with the ten lines of the example, and what an installation is refused for.

Helm speaks to a stand-in of an API server, which keeps what is created and refuses what a schema refuses. It forgets
Helm's record of the release, so a second installation finds the objects of the first.
"""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from api_server import ApiServer, serving
from rendering import CHART, NAMESPACE, ROOT

EXAMPLE = ROOT / "docs" / "examples" / "install" / "values.yaml"
OWNER = {"name": "spring", "namespace": NAMESPACE}
Run = Callable[..., subprocess.CompletedProcess[str]]


def entry(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **more}


@pytest.fixture
def server(crds: Path) -> ApiServer:
    """An API server whose namespace has Feast's secret, and nothing else."""
    made = ApiServer(crds)
    made.keep(entry("ServiceAccount", "default"), NAMESPACE)
    made.keep(entry("Secret", "redis", data={"connection": "cmVkaXM="}), NAMESPACE)
    return made


@pytest.fixture
def run(server: ApiServer, helm: str, tmp_path: Path) -> Run:
    """Helm on that server, with the values of the example."""

    def do(*options: str) -> subprocess.CompletedProcess[str]:
        with serving(server, tmp_path) as config:
            return subprocess.run(
                [
                    *(helm, "install", "spring", str(CHART), "--namespace", NAMESPACE, "--values", str(EXAMPLE)),
                    *("--disable-openapi-validation", *options),
                ],
                env={**os.environ, "KUBECONFIG": str(config), "HOME": str(tmp_path)},
                capture_output=True,
                text=True,
                check=False,
            )

    return do


def test_ten_lines_of_values_install_a_campaign_and_the_same_again_changes_nothing(run: Run, server: ApiServer) -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 10
    done = run()
    assert done.returncode == 0, done.stderr
    assert server.refused == []
    kinds = {told.partition("/")[0] for told in server.taken}
    assert kinds >= {"InferenceService", "Deployment", "CronJob", "NetworkPolicy", "PodMonitor", "PrometheusRule"}
    tokens = dict(server.kept[f"secrets/{NAMESPACE}/spring-tokens"]["data"])
    assert run().returncode == 0
    # The strategy for a disruption budget's selector is to replace it, also by an equal one.
    assert server.patched == {f"poddisruptionbudgets/{NAMESPACE}/spring-predictor"}
    assert server.kept[f"secrets/{NAMESPACE}/spring-tokens"]["data"] == tokens


def test_one_sentence_names_every_prerequisite_that_is_missing(run: Run, server: ApiServer) -> None:
    server.absent = {"serving.kserve.io/v1beta1", "monitoring.coreos.com/v1"}
    options = "campaign=,ledger.store=redis,ledger.redis.existingSecret=books,auth.existingSecret=redis"
    done = run("--set", f"{options},workspace.existingClaim=volume,features.online.redis.existingSecret=feast")
    assert done.returncode != 0
    assert server.taken == set()
    [sentence] = [line for line in done.stderr.splitlines() if "set campaign" in line]
    for part in (
        "set campaign (its name, as in campaign.json; several in campaigns)",
        "the API server has no serving.kserve.io/v1beta1 InferenceService (install KServe",
        "and no monitoring.coreos.com/v1 PodMonitor (install",
        "and no monitoring.coreos.com/v1 PrometheusRule (install",
        f"namespace {NAMESPACE} has no Secret feast (features.online.redis)",
        "and no Secret books (ledger.redis)",
        "and no key token in Secret redis (auth)",
        "and no PersistentVolumeClaim volume (workspace.existingClaim)",
        "see docs/how-to/install-on-a-cluster.md",
    ):
        assert part in sentence


def test_a_claim_that_another_release_left_is_named_with_both_ways_on(run: Run, server: ApiServer) -> None:
    kept = entry("PersistentVolumeClaim", "spring-ledger")
    server.keep(kept, NAMESPACE)
    for owner, told in (({}, "another installation"), ({"meta.helm.sh/release-name": "may"}, "release may")):
        kept["metadata"]["annotations"] = owner
        done = run("--dry-run=server")
        assert f"the claim spring-ledger is kept from {told}" in done.stderr
        assert "set ledger.storage.existingClaim=spring-ledger to go on with its data, or nameOverride" in done.stderr
    assert run("--dry-run=server", "--set", "ledger.storage.existingClaim=spring-ledger").returncode == 0
    # The release's own, from before it was uninstalled, is taken up again.
    kept["metadata"]["annotations"] = {f"meta.helm.sh/release-{key}": of for key, of in OWNER.items()}
    kept["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "Helm"}
    assert run("--dry-run=server").returncode == 0


def test_pipelines_in_a_namespace_that_cannot_run_them_are_refused_in_one_sentence(run: Run, server: ApiServer) -> None:
    def told(*settings: str) -> str:
        done = run("--dry-run=server", "--set", ",".join(["resolve.by=kfp", *settings]))
        return done.stderr if done.returncode else ""

    assert f"namespace {NAMESPACE} is no profile (it has no ServiceAccount default-editor" in told()
    alone = "resolve.kfp.multiUser=false"
    assert "refuses calls without credentials: set resolve.kfp.multiUser to true" in told(alone)
    server.keep(entry("ServiceAccount", "default-editor"), NAMESPACE)
    assert told() == ""
    steps = "training.steps.enabled=true"
    assert "has no ServiceAccount pipeline-runner" in told(steps)
    assert told(steps, "training.steps.serviceAccount=default-editor") == ""
    server.absent = {"kubeflow.org/v1"}
    assert "the API server has no kubeflow.org/v1 Profile: install a Kubeflow with profiles, or set" in told()
    assert f"claims and secrets of {NAMESPACE}: install the release in kubeflow" in told(alone)
    assert told(alone, f"resolve.kfp.host=http://ml-pipeline.{NAMESPACE}:8888") == ""


def test_two_releases_of_one_campaign_whose_series_one_prometheus_would_mix_are_refused(
    run: Run, server: ApiServer
) -> None:
    rules = {"groups": [{"rules": [{"expr": f'spend{{campaign="spring",namespace="{NAMESPACE}"}}'}]}]}
    other = entry("PrometheusRule", "may", spec=rules) | {"apiVersion": "monitoring.coreos.com/v1"}
    other["metadata"]["labels"] = {"app.kubernetes.io/instance": "may"}
    server.keep(other, NAMESPACE)
    assert (
        "set monitoring.selectors.app_kubernetes_io_instance to spring, because release may of this namespace has "
        "campaign spring too and one Prometheus would mix their series"
    ) in run("--dry-run=server").stderr
    for own in ("monitoring.selectors.app_kubernetes_io_instance=spring", "campaign=sprin", "checks.objects=false"):
        assert run("--dry-run=server", "--set", own).returncode == 0
    # Of one's own release, at an upgrade.
    other["metadata"]["labels"] = {"app.kubernetes.io/instance": "spring"}
    assert run("--dry-run=server").returncode == 0


@pytest.mark.parametrize(
    ("settings", "gone"),
    [
        ("resolve.by=cronjob", ["spring-resolve", "spring-resolve-old"]),
        ("resolve.by=kfp", ["spring-resolve-old"]),
        ("resolve.by=kfp,resolve.kfp.experiment=other", ["spring-resolve", "spring-resolve-old"]),
    ],
)
def test_schedules_that_an_earlier_revision_made_go_before_the_upgrade(
    run: Run, server: ApiServer, settings: str, gone: list[str]
) -> None:
    server.keep(entry("ServiceAccount", "default-editor"), NAMESPACE)
    before = {"host": "http://ml-pipeline.kubeflow:8888", "experiment": "shadowprice", "multiUser": True}
    data = {"kfp": json.dumps(before), "names": json.dumps(["spring-resolve", "spring-resolve-old"])}
    owner = {f"meta.helm.sh/release-{key}": of for key, of in OWNER.items()}
    server.keep(entry("ConfigMap", "spring-schedules", data=data), NAMESPACE)
    server.kept[f"configmaps/{NAMESPACE}/spring-schedules"]["metadata"] |= {
        "annotations": owner,
        "labels": {"app.kubernetes.io/managed-by": "Helm"},
    }
    done = run("--dry-run=server", "--set", settings)
    assert done.returncode == 0, done.stderr
    text = done.stdout.partition("HOOKS:")[2].partition("MANIFEST:")[0]
    hooks = {each["metadata"]["name"]: each for each in yaml.safe_load_all(text) if each}
    job = hooks["spring-unschedule-old"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-upgrade"
    pod = job["spec"]["template"]["spec"]
    assert pod["containers"][0]["args"][3:] == [
        "unschedule",
        *gone,
        "--host=http://ml-pipeline.kubeflow:8888",
        f"--namespace={NAMESPACE}",
        "--experiment=shadowprice",
    ]
    assert [each["name"] for each in pod["volumes"]] == ["scratch", "pipelines-token"]
