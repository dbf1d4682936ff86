"""A namespace of its own on the API server of ``SHADOWPRICE_TEST_CLUSTER``, which is a kubeconfig file.

``make test-cluster KUBECONFIG=…`` sets it, so that no other run of the tests touches a cluster.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest
import yaml
from rendering import helm_command

CONFIG = os.environ.get("SHADOWPRICE_TEST_CLUSTER", "")
GROUPS = ("serving.kserve.io/v1beta1", "monitoring.coreos.com/v1", "ray.io/v1")
Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Cluster:
    """Command lines that speak to an API server.

    space  namespace of the tests
    bare   groups whose kinds it lacked before the tests
    """

    helm_path: str
    home: Path
    space: str
    bare: tuple[str, ...] = ()

    def do(self, *words: str, text: str | None = None) -> Done:
        environment = {**os.environ, "KUBECONFIG": CONFIG, "HOME": str(self.home)}
        return subprocess.run(words, env=environment, input=text, capture_output=True, text=True, check=False)

    def kubectl(self, *words: str, text: str | None = None) -> Done:
        return self.do("kubectl", "--namespace", self.space, *words, text=text)

    def helm(self, *words: str) -> Done:
        return self.do(self.helm_path, "--namespace", self.space, *words)

    def ok(self, done: Done) -> str:
        assert done.returncode == 0, done.stderr
        return done.stdout

    def make(self, kind: str, name: str, **more: object) -> None:
        """Apply an object of the core group."""
        entry = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **more}
        self.ok(self.kubectl("apply", "-f", "-", text=yaml.safe_dump(entry)))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The API server and a namespace that admits only restricted pods; the namespace is removed afterwards."""

    def skip(reason: str) -> NoReturn:
        pytest.skip(reason)

    if not CONFIG:
        skip("no API server: run make test-cluster KUBECONFIG=…")
    helm = helm_command()
    if helm is None or shutil.which("kubectl") is None:
        skip("helm and kubectl are needed")
    found = Cluster(helm, tmp_path_factory.mktemp("home"), f"shadowprice-test-{uuid.uuid4().hex[:8]}")
    served = found.ok(found.kubectl("api-versions")).split()
    found = Cluster(helm, found.home, found.space, tuple(group for group in GROUPS if group not in served))
    restricted = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": found.space, "labels": restricted}}
    found.ok(found.kubectl("apply", "-f", "-", text=yaml.safe_dump(space)))
    try:
        # A server without controllers makes no account of its own, and without one it admits no pod.
        found.make("ServiceAccount", "default")
        yield found
    finally:
        found.kubectl("delete", "namespace", found.space, "--wait=false")
