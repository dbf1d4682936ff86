"""Images built here and the rendered chart run with them; only when asked for, as it takes minutes and root."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from containers import BASE, BUILDER, ROOT, Container, Pods, command

ASKED = "SHADOWPRICE_TEST_IMAGES"
SMALL_WORLD = {"customers": 1500, "merchants": 400, "both": 40}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    asked = os.environ.get(ASKED, "").split()
    for item in items:
        if not item.path.is_relative_to(Path(__file__).parent):
            continue
        role = "pipeline" if "pipeline_image" in getattr(item, "fixturenames", ()) else "serving"
        if role not in asked:
            item.add_marker(pytest.mark.skip(reason=f"make test-images runs it ({ASKED} names no {role})"))


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory, missing: Callable[[str], Any]) -> None:
    """What building and running takes, configured for a machine without a service manager."""
    if os.geteuid() != 0:
        missing("images are built and run as root here")
    for name in ("buildah", "podman", "runc", "mmdebstrap"):
        if shutil.which(name) is None:
            missing(f"{name} is missing; apt-get install buildah podman runc mmdebstrap")
    if "CONTAINERS_CONF" not in os.environ:
        path = tmp_path_factory.mktemp("containers") / "containers.conf"
        path.write_text(runpy.run_path(str(ROOT / "images" / "build.py"))["QUIET_HOST"])
        os.environ["CONTAINERS_CONF"] = str(path)


@pytest.fixture(scope="session")
def built(tools: None) -> Callable[[str], str]:
    """Builds the image of a role, or takes it from the layers that are there, and gives its name."""
    if not (os.environ.get("BASE") and os.environ.get("BUILDER")):
        command(str(ROOT / "images" / "debian.sh"))

    def build(role: str) -> str:
        base, builder = os.environ.get("BASE") or BASE, os.environ.get("BUILDER") or BUILDER
        done = command(
            sys.executable,
            str(ROOT / "images" / "build.py"),
            role,
            "--base",
            base,
            "--builder",
            builder,
            "--tool=buildah",
        )
        return done.strip().splitlines()[-1]

    return build


@pytest.fixture(scope="session")
def serving_image(built: Callable[[str], str]) -> str:
    return built("serving")


@pytest.fixture(scope="session")
def ledger_image(built: Callable[[str], str]) -> str:
    return built("ledger")


@pytest.fixture(scope="session")
def pipeline_image(built: Callable[[str], str]) -> str:
    return built("pipeline")


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace as a training run leaves it, without a price."""
    workspace = tmp_path_factory.mktemp("trained") / "workspace"
    options = json.dumps(SMALL_WORLD)
    settings = {"workspace": workspace, "options": options, "recipe": "dnn", "epochs": 40, "workers": 0}
    subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "pipelines", "run", "train"]
        + [f"--set={name}={value}" for name, value in settings.items()],
        check=True,
        cwd=ROOT,
    )
    assert (workspace / "model" / "heads.safetensors").exists()
    return workspace


@pytest.fixture(scope="session")
def pods(serving_image: str, ledger_image: str, trained: Path) -> Iterator[Pods]:
    """The rendered chart's pods over that workspace; gone after the tests."""
    with Pods(trained) as running:
        yield running


@pytest.fixture(scope="session")
def ledger(pods: Pods) -> Container:
    """The rendered ledger, ready."""
    return pods.start("Deployment", "world-ledger").wait_ready(8081, "/readyz")


@pytest.fixture(scope="session")
def first_price(pods: Pods, ledger: Container) -> str:
    """What the rendered re-solve said when it published the first price."""
    return pods.start("CronJob", "world-resolve").wait_done()


@pytest.fixture(scope="session")
def predictor(pods: Pods, first_price: str) -> Container:
    """The rendered predictor, ready."""
    return pods.start("InferenceService", "world").wait_ready(8080, "/v2/health/ready")
