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
def install(server: ApiServer, helm: str, tmp_path: Path) -> Callable[..., str]:
    """What Helm says to the values of the example and others; empty where it would install them."""

    def run(*values: str) -> str:
        example = ROOT / "docs" / "examples" / "install" / "values.yaml"
        command = [helm, "install", "spring", str(CHART), "--namespace", NAMESPACE, "--values", str(example)]
        with serving(server, tmp_path) as config:
            done = subprocess.run(
                [*command, "--dry-run=server", *(word for each in values for word in ("--set", each))],
                env={**os.environ, "KUBECONFIG": str(config), "HOME": str(tmp_path)},
                capture_output=True,
                text=True,
                check=False,
            )
        return done.stderr if done.returncode else ""

    return run
