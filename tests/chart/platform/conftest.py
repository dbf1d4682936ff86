import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from api_server import ApiServer, serving
from rendering import CHART, NAMESPACE, ROOT


@pytest.fixture
def server(crds: Path) -> ApiServer:
    """An API server whose namespace has Feast's secret, and nothing else."""
    made = ApiServer(crds)
    for kind, name, more in (("ServiceAccount", "default", {}), ("Secret", "redis", {"data": {"connection": "cg=="}})):
        made.keep({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **more}, NAMESPACE)
    return made


@pytest.fixture
def helm_install(server: ApiServer, helm: str, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """A dry run of ``helm install`` with the values of the example and others."""

    def run(*values: str) -> subprocess.CompletedProcess[str]:
        example = ROOT / "docs" / "examples" / "install" / "values.yaml"
        command = [helm, "install", "spring", str(CHART), "--namespace", NAMESPACE, "--values", str(example)]
        with serving(server, tmp_path) as config:
            return subprocess.run(
                [*command, "--dry-run=server", *(word for each in values for word in ("--set", each))],
                env={**os.environ, "KUBECONFIG": str(config), "HOME": str(tmp_path)},
                capture_output=True,
                text=True,
                check=False,
            )

    return run


@pytest.fixture
def install(helm_install: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[..., str]:
    """Return why Helm refuses values; empty where it would install them."""

    def run(*values: str) -> str:
        done = helm_install(*values)
        return done.stderr if done.returncode else ""

    return run


@pytest.fixture
def notes(helm_install: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[..., str]:
    """Return the notes of an installation."""

    def run(*values: str) -> str:
        done = helm_install(*values)
        assert done.returncode == 0, done.stderr
        return done.stdout.partition("NOTES:")[2]

    return run
