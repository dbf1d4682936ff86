"""Lines of the guides for a cluster: what can run without one runs, and the others are named with a reason."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from api_server import ApiServer, serving
from cluster_lines import Line, lines
from kfp_backend import serving as kubeflow
from kfp_users import AUDIENCE, Users
from rendering import NAMESPACE, ROOT, faults, parse, render, values_of
from snippets import commands

LINES = lines()
KUBECTL = re.compile(r"kubectl (-n growth )?(create (namespace|secret|job)|get (configmap|secret)|patch) ")
"""Lines that kubectl follows on the stand-in of an API server."""
PIPELINES = re.compile(r"(python -m|shadowprice) pipelines (compile|upload|run|schedule|unschedule) ")
"""Lines that the stand-in of a Kubeflow Pipelines backend answers."""
REACHES_OUT = "reads the address of another project"
NODE = "needs a pod that runs"
REGISTRY = "needs a registry of images"
TAGGED = "needs the tag of a release; tests/images/test_release.py makes and verifies one"
ONLY_A_CLUSTER = {
    ("build-images", "make images "): "builds for minutes; tests/images does so",
    ("build-images", "make push"): REGISTRY + "; tests/images has one",
    ("check-on-a-cluster", "make test-cluster"): "needs an API server; tests/cluster has the tests that it runs",
    ("check-on-a-cluster", "shadowprice doctor"): "needs an API server; tests/cli and tests/chart plant its faults",
    ("check-on-a-cluster", "kubectl -n growth exec"): NODE,
    ("check-on-a-cluster", "kubectl -n default run"): NODE,
    ("check-on-a-cluster", "kubectl -n growth delete pod"): NODE,
    ("check-on-a-cluster", "kubectl -n growth get pvc"): "needs the claims that an uninstall leaves",
    ("check-on-a-cluster", "helm uninstall"): "needs Helm's record of a release",
    ("install-on-a-cluster", "kubectl apply -f"): REACHES_OUT,
    ("install-on-a-cluster", "kubectl apply --server-side -f"): REACHES_OUT,
    ("install-on-a-cluster", "kubectl create -k"): REACHES_OUT,
    ("install-on-a-cluster", 'kubectl apply -k "github'): REACHES_OUT,
    ("install-on-a-cluster", "kubectl wait"): "needs what another project installs",
    ("install-on-a-cluster", "helm test"): NODE,
    ("open-the-console", "kubectl -n growth port-forward"): NODE,
    ("release", "make release"): REGISTRY + "; tests/images/test_release.py has one",
    ("release", "git push"): TAGGED,
    ("release", "helm install spring oci:"): REGISTRY,
    ("release", "container="): REGISTRY,
    ("release", "folder="): REGISTRY,
    ("release", "cat $folder"): REGISTRY,
    ("release", "echo"): TAGGED,
    ("release", "ssh-keygen"): TAGGED,
    ("release", "git -c"): TAGGED,
    ("restore", "kubectl -n growth exec"): NODE,
    ("run-pipelines", "podman"): "needs containers; tests/images runs the pipelines in them",
    ("run-pipelines", "mkdir ws"): "needs root",
    ("run-pipelines", "DOCKER_HOST="): "needs containers; tests/images runs the pipelines in them",
    ("upgrade", "helm test"): NODE,
}
"""Guide and beginning of lines that nothing runs here, and why."""
ELSEWHERE = {
    ("erase-an-account", "shadowprice account erase"): "tests/serving/ledger/erasure",
    ("install-on-a-cluster", "helm install"): "tests/chart/test_install.py",
    ("install-on-a-cluster", "kubectl apply -k k8s/overlays"): "tests/chart/test_dry_run.py",
    ("publish-to-a-model-registry", "helm upgrade"): "tests/chart/test_pages.py",
    ("publish-to-a-model-registry", "python -m operations register"): "tests/operations/test_model_registry.py",
    ("retrain", "python -m pipelines retrain-on-alarm"): "tests/pipelines/test_alarm.py",
    ("run-steps-as-ray-jobs", "helm upgrade"): "tests/chart/test_pages.py",
    ("upgrade", "helm upgrade"): "tests/chart/test_pages.py",
    ("upgrade", "python -m operations register"): "tests/runs/test_hints.py",
}
"""Guide and beginning of lines with paths or a release of a cluster, and the test that runs them with its own."""


def test_every_line_runs_here_or_is_named_with_a_reason() -> None:
    named = [*ONLY_A_CLUSTER, *ELSEWHERE]
    rest = [line for line in LINES if not (KUBECTL.match(line.text) or PIPELINES.match(line.text))]
    rest = [line for line in rest if not line.text.startswith("export ")]

    def fits(line: Line, guide: str, begin: str) -> bool:
        return line.guide == guide and line.text.startswith(begin)

    assert [line for line in rest if not any(fits(line, *each) for each in named)] == []
    assert [each for each in named if not any(fits(line, *each) for line in rest)] == []
    assert [place for place in ELSEWHERE.values() if not (ROOT / place).exists()] == []


def test_lines_for_kubectl_do_what_they_say(kubectl: str, crds: Path, tmp_path: Path) -> None:
    """On an API server that has the release of the guides."""
    server = ApiServer(crds)
    values = values_of(ROOT / "docs/examples/install/values.yaml") | {"checks": {"crds": False}}
    values |= {"console": {"enabled": True}}
    for entry in render(values, release="spring"):
        server.keep(entry, NAMESPACE)
    for name in ("password", "token"):
        (tmp_path / name).write_text("a-secret-of-enough-length")
    mine = [line.text for line in LINES if KUBECTL.match(line.text)]
    assert len(mine) > 9
    with serving(server, tmp_path) as config:
        known = {
            "KUBECONFIG": str(config),
            "HOME": str(tmp_path),
            "PATH": f"{Path(kubectl).parent}:{os.environ['PATH']}",
        }
        made = []
        for text in mine:
            # kubectl sends what it creates in a form of its own, so it shows that in place of sending it.
            shown = f"{text} --dry-run=client -o yaml" if " create " in text else text
            command = ["bash", "-eo", "pipefail", "-c", shown]
            done = subprocess.run(command, env=known, cwd=tmp_path, capture_output=True, text=True, check=False)
            assert done.returncode == 0, text + done.stderr
            made += parse(done.stdout) if " create " in text else []
    assert [fault for entry in made for fault in faults(entry, crds)] == []
    names = {f"{entry['kind']}/{entry['metadata']['name']}" for entry in made}
    assert names >= {"Namespace/growth", "Secret/redis", "Secret/ledger-redis", "Secret/callers", "Job/resolve-now"}
    assert "cronjobs/growth/spring-resolve" in server.patched


ONE_BY_ONE = """
import json, sys
from pipelines.__main__ import main
sys.exit(max(main(words) for words in json.load(sys.stdin)))
"""
"""Pipelines are built when they are imported, for one cluster: these commands have a process of their own."""


def test_lines_for_kubeflow_are_taken_by_a_backend_with_profiles(tmp_path: Path) -> None:
    # The lines of the guide on pipelines run in tests/pipelines/test_many_users.py.
    mine = [line.text for line in LINES if PIPELINES.match(line.text) and line.guide != "run-pipelines"]
    assert len(mine) > 4
    (tmp_path / "token").write_text("good\n")
    caller = "system:serviceaccount:growth:default-editor"
    users = Users(tokens={"good": (caller, AUDIENCE)}, edit={(caller, NAMESPACE)})
    with kubeflow(users) as backend:
        texts = [re.sub(r"--host \S+", f"--host {backend.url}", text) for text in mine]
        given = [words[words.index("pipelines") + 1 :] for text in texts for words in commands(text)]
        # The token of a pod, where a line names none.
        known = os.environ | {"HOME": str(tmp_path), "KF_PIPELINES_SA_TOKEN_PATH": "token", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-W", "ignore", "-c", ONE_BY_ONE]
        done = subprocess.run(
            command, input=json.dumps(given), cwd=tmp_path, env=known, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        names = [each["display_name"] for each in (*backend.runs.values(), *backend.recurring.values())]
    assert {name.split(" ")[0] for name in names} >= {"shadowprice-train", "shadowprice-retrain"}, names
