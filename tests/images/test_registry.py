"""Images and chart in a registry: what comes back is what went there."""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import httpx
import machine
import pytest
from build import ROLES, version
from containers import ROOT, command
from helm_python import Chart, RegistryClient
from rendering import CASES, CHART, NAMESPACE, RELEASE, parse, render, values_of, without_tokens

MANIFESTS = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def pushed(registry: str, built: Callable[[str], str]) -> Callable[[str], dict[str, str]]:
    """Pushes the image of a role and the chart, once; gives what was printed: values by name, the chart's reference.

    Each to a folder of its own: two archives of one chart differ in their times.
    """

    @cache
    def push(role: str) -> dict[str, str]:
        built(role)
        done = subprocess.run(
            [
                *(sys.executable, str(ROOT / "images" / "push.py"), f"{registry}/{role}", role),
                *("--plain-http", "--compression-level=1"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        *values, chart = done.stdout.splitlines()
        return dict(line.split("=", 1) for line in values) | {"chart": chart.removeprefix("chart ")}

    return push


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[list[str]]:
    """podman of another machine: one that has none of the images of this one."""
    # What it has unpacked goes where all images are kept; podman wants a short path for the rest.
    kept = os.environ.get(machine.CACHE) or "/var/tmp"
    with tempfile.TemporaryDirectory(dir=kept) as images, tempfile.TemporaryDirectory(dir="/var/tmp") as running:
        yield ["podman", f"--root={images}", f"--runroot={running}/run"]


@pytest.mark.parametrize("role", ROLES)
def test_an_image_comes_back_with_its_digest(
    role: str,
    registry: str,
    pushed: Callable[[str], dict[str, str]],
    built: Callable[[str], str],
    elsewhere: list[str],
) -> None:
    values = pushed(role)
    name, digest = values[f"images.{role}.repository"], values[f"images.{role}.digest"]
    answer = httpx.get(
        f"http://{registry}/v2/{name.removeprefix(f'{registry}/')}/manifests/{version()}", headers={"Accept": MANIFESTS}
    )
    assert digest == f"sha256:{hashlib.sha256(answer.content).hexdigest()}"
    command(*elsewhere, "pull", "--quiet", "--tls-verify=false", f"{name}@{digest}")
    [there] = json.loads(command(*elsewhere, "image", "inspect", f"{name}@{digest}"))
    [here] = json.loads(command("podman", "image", "inspect", built(role)))
    assert there["Digest"] == digest
    # The id is the digest of the configuration, which names every layer by the digest of its content.
    assert there["Id"] == here["Id"] == answer.json()["config"]["digest"].removeprefix("sha256:")
    assert there["RootFS"] == here["RootFS"]
    command(*elsewhere, "rmi", "--all", "--force")


def test_the_chart_comes_back_with_its_digest_and_renders_the_same_objects(
    registry: str, pushed: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    reference, _, digest = pushed("ledger")["chart"].partition("@")
    repository = reference.removeprefix(f"oci://{registry}/")
    manifest = httpx.get(f"http://{registry}/v2/{repository}/manifests/{version()}", headers={"Accept": MANIFESTS})
    assert digest == f"sha256:{hashlib.sha256(manifest.content).hexdigest()}"
    with RegistryClient(plain_http=True) as client:
        client.pull(reference, version=version(), destination=tmp_path, plain_http=True)
    [archive] = tmp_path.glob("*.tgz")
    [layer] = manifest.json()["layers"]
    assert layer["digest"] == f"sha256:{hashlib.sha256(archive.read_bytes()).hexdigest()}"
    values = values_of(CASES[0])
    with Chart.load(CHART) as local, Chart.load_archive(archive.read_bytes()) as pulled:
        rendered = [chart.render(values, name=RELEASE, namespace=NAMESPACE) for chart in (local, pulled)]
    # The tokens of each rendering are its own.
    tokens = [without_tokens(parse(texts.pop("shadowprice/templates/tokens.yaml"))) for texts in rendered]
    assert tokens[0] == tokens[1] != []
    assert rendered[0] == rendered[1]


def test_the_printed_values_make_the_chart_ask_for_what_was_pushed(pushed: Callable[[str], dict[str, str]]) -> None:
    values = values_of(CHART / "ci" / "one-node-values.yaml")
    image = {field: pushed("ledger")[f"images.ledger.{field}"] for field in ("repository", "digest")}
    objects = render(values | {"images": {"ledger": image}})
    asked = {
        container["image"]
        for entry in objects
        if entry["kind"] == "Deployment"
        for container in entry["spec"]["template"]["spec"]["containers"]
    }
    assert asked == {"{repository}@{digest}".format(**image)}


def test_a_registry_that_does_not_answer_is_named(ledger_image: str, free_port) -> None:
    host = f"127.0.0.1:{free_port()}"
    done = subprocess.run(
        [sys.executable, str(ROOT / "images" / "push.py"), host, "ledger", "--plain-http"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"make push: buildah could not push shadowprice/ledger:{version()} to {host}" in done.stderr
    assert "Traceback" not in done.stderr
