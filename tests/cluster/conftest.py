"""A namespace of its own on the API server of ``SHADOWPRICE_TEST_CLUSTER``, which is a kubeconfig file.

``make test-cluster KUBECONFIG=…`` sets it, so that no other run of the tests touches a cluster. ``NAMESPACE`` and
``RELEASE`` name an installed release, which the checks of the operators run in.
"""

import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import NoReturn

import pytest
import yaml
from commands import Cluster
from rendering import helm_command

CONFIG = os.environ.get("SHADOWPRICE_TEST_CLUSTER", "")
GROUPS = ("serving.kserve.io/v1beta1", "monitoring.coreos.com/v1", "ray.io/v1")


def connected(tmp_path_factory: pytest.TempPathFactory, space: str, name: str = "") -> Cluster:
    """The cluster of ``CONFIG``; without one the test is skipped."""

    def skip(reason: str) -> NoReturn:
        pytest.skip(reason)

    if not CONFIG:
        skip("no API server: run make test-cluster KUBECONFIG=…")
    helm = helm_command()
    if helm is None or shutil.which("kubectl") is None:
        skip("helm and kubectl are needed")
    return Cluster(helm, tmp_path_factory.mktemp("home"), space, CONFIG, name=name)


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """An installed release, of a campaign whose model is trained."""
    space, name = os.environ.get("NAMESPACE", ""), os.environ.get("RELEASE", "")
    if not (space and name):
        pytest.skip("no installed release: run make test-cluster KUBECONFIG=… NAMESPACE=… RELEASE=…")
    return connected(tmp_path_factory, space, name)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The API server and a namespace that admits only restricted pods; the namespace is removed afterwards."""
    found = connected(tmp_path_factory, f"shadowprice-test-{uuid.uuid4().hex[:8]}")
    served = found.ok(found.kubectl("api-versions")).split()
    found = replace(found, bare=tuple(group for group in GROUPS if group not in served))
    restricted = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": found.space, "labels": restricted}}
    found.ok(found.kubectl("apply", "-f", "-", text=yaml.safe_dump(space)))
    try:
        # A server without controllers makes no account of its own, and without one it admits no pod.
        found.make("ServiceAccount", "default")
        yield found
    finally:
        found.kubectl("delete", "namespace", found.space, "--wait=false")
