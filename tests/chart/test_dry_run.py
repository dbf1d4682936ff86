"""``kubectl apply --server-side --dry-run=server`` of everything that is ever applied.

Against the API server of ``KUBECONFIG``, where that is set, and always against one that behaves as an API server does
as far as its schemas, the rules of the custom resources and the namespaces go.
"""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from api_server import ApiServer, serving
from rendering import CASES, CHART, NAMESPACE, ROOT, Objects, parse, render, values_of

OVERLAYS = ("dev", "production")
SPACES = (NAMESPACE, "shadowprice", "shadowprice-dev")
Apply = Callable[..., subprocess.CompletedProcess[str]]


def manifests(case: Path) -> Objects:
    """What a release of a case brings, and the RayJob that its steps make of their template."""
    objects = render(values_of(case))
    for entry in list(objects):
        if text := entry.get("data", {}).get("rayjob.yaml"):
            [job] = parse(text)
            job["spec"]["entrypoint"] = "python -m operations solve {}"
            objects.append(job)
    for entry in objects:
        entry["metadata"].setdefault("namespace", NAMESPACE)
    return objects


def kubectl_with(kubectl: str, config: str, cache: Path) -> Apply:
    environment = {**os.environ, "KUBECONFIG": config, "HOME": str(cache)}

    def run(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [kubectl, "apply", "--server-side", *arguments]
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False, env=environment)

    return run


SERVERS = ["stand-in", *(["real"] if os.environ.get("KUBECONFIG") else [])]


@pytest.fixture(scope="module", params=SERVERS)
def apply(
    request: pytest.FixtureRequest, kubectl: str, crds: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Apply]:
    """``kubectl apply --server-side`` on an API server that has the namespaces, and keeps nothing of a dry run."""
    folder = tmp_path_factory.mktemp("kubectl")
    spaces = yaml.safe_dump_all(
        [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in SPACES]
    )
    if request.param == "stand-in":
        with serving(ApiServer(crds), folder) as own:
            run = kubectl_with(kubectl, str(own), folder)
            assert run("-f", "-", text=spaces).returncode == 0
            yield run
        return
    run = kubectl_with(kubectl, os.environ["KUBECONFIG"], folder)
    # A dry run keeps nothing, so what is applied with its namespace needs the namespace before.
    done = run("-f", "-", text=spaces)
    assert done.returncode == 0, done.stderr
    yield run


def test_a_real_api_server_is_asked_too() -> None:
    if SERVERS == ["stand-in"]:
        pytest.skip("no API server: KUBECONFIG is not set")


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_it_takes_every_object_of_an_overlay(overlay: str, apply: Apply) -> None:
    done = apply("--dry-run=server", "-k", str(ROOT / "k8s" / "overlays" / overlay))
    assert done.returncode == 0, done.stderr
    assert "serverside-applied (server dry run)" in done.stdout


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_it_takes_every_object_of_a_release(case: Path, apply: Apply) -> None:
    objects = manifests(case)
    done = apply("--dry-run=server", "-f", "-", text=yaml.safe_dump_all(objects))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("serverside-applied (server dry run)") == len(objects)


@pytest.mark.parametrize(
    ("break_it", "named"),
    [
        (lambda entry: entry["spec"].update(replicaz=1), "replicaz"),
        (lambda entry: entry["metadata"].update(namespace="nowhere"), "nowhere"),
        (lambda entry: entry["spec"]["selector"].update(matchLabels="all"), "matchLabels"),
    ],
)
def test_the_stand_in_refuses_what_an_api_server_refuses(
    break_it: Callable[[dict[str, Any]], None], named: str, kubectl: str, crds: Path, tmp_path: Path
) -> None:
    [ledger] = [
        entry for entry in render(values_of(CHART / "ci" / "minimal-values.yaml")) if entry["kind"] == "Deployment"
    ]
    ledger["metadata"]["namespace"] = "default"
    server = ApiServer(crds)
    with serving(server, tmp_path) as config:
        run = kubectl_with(kubectl, str(config), tmp_path)
        assert run("--dry-run=server", "-f", "-", text=yaml.safe_dump(ledger)).returncode == 0
        break_it(ledger)
        done = run("--dry-run=server", "-f", "-", text=yaml.safe_dump(ledger))
        assert done.returncode != 0
        assert named in done.stderr
    assert server.taken == {"Deployment/default/spring-ledger"}
