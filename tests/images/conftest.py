"""Images built here, and the rendered chart and the pipelines run with them; only when asked for: minutes, as root."""

import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import machine
import pytest
from containers import BASE, BUILDER, ROOT, USER, Container, Pods, command, price_of

from pipelines.local import run
from shadowprice.price import PriceRecord

ASKED = "SHADOWPRICE_TEST_IMAGES"
TRAINING = {
    "options": {"customers": 1500, "merchants": 400, "both": 40, "budget_per_request": 47.0, "day_requests": 7600},
    "recipe": "joint_gnn",
    "epochs": 40,
    "workers": 2,
    "beat_uniform": False,
}
"""A small run of the training pipeline on two Ray workers, for a campaign whose budget binds."""
LAYERS = """
folder=$(mktemp -d "$1/probe.XXXXXX"); trap 'umount "$folder/all" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"; mkdir lower upper work all
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work all
"""
"""What podman asks of a machine: namespaces, and a file system over another."""


def role_of(item: pytest.Item) -> str:
    """What has to be asked for to run a test; empty for one that runs no container."""
    fixtures = getattr(item, "fixturenames", ())
    if not item.path.is_relative_to(Path(__file__).parent) or "tools" not in fixtures:
        return ""
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return "pipeline" if "pipeline_image" in fixtures or parameters.get("role") == "pipeline" else "serving"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    asked = os.environ.get(ASKED, "").split()
    for item in items:
        role = role_of(item)
        if role and role not in asked:
            item.add_marker(pytest.mark.skip(reason=f"make test-images runs it ({ASKED} names no {role})"))
    items.sort(key=turn)


def turn(item: pytest.Item) -> tuple[bool, bool]:
    """The largest image is built last, and the others while a model is trained beside them."""
    role = role_of(item)
    return role == "pipeline", not (role and "trained" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory, missing: Callable[[str], Any]) -> None:
    """What building and running takes, configured for a machine without a service manager."""
    if os.geteuid() != 0:
        missing("images are built and run as root here")
    for name in ("buildah", "podman", "runc", "mmdebstrap", "docker-registry"):
        if shutil.which(name) is None:
            missing(f"{name} is missing; apt-get install buildah podman runc mmdebstrap docker-registry")
    # Where the kernel or the file system refuses, no package helps: that is a skip in continuous integration too.
    folder = os.environ.get(machine.CACHE) or "/var/lib"
    refused = subprocess.run(
        ["unshare", "--mount", "--net", "--pid", "--fork", "sh", "-ec", LAYERS, "sh", folder],
        capture_output=True,
        text=True,
    )
    if refused.returncode:
        pytest.skip(f"this machine lets no container run: {refused.stderr.strip()[-500:]}")
    os.environ.update(machine.settings(os.environ, tmp_path_factory.mktemp("containers")))


@pytest.fixture(scope="session")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the lists of parts of the images that are built."""
    return tmp_path_factory.mktemp("parts")


@pytest.fixture(scope="session")
def building(tools: None, parts: Path) -> Iterator[Callable[[str], Future[str]]]:
    """Starts to build the image of a role, or of the base that they run on, beside what the tests do; one at a time.

    Even where no layer is made again, buildah reads all that is copied to find that out: an image is built once.
    """
    with ThreadPoolExecutor(1) as worker:
        base = worker.submit(make_base)

        def build(role: str) -> str:
            options = ["--base", base.result(), "--builder", os.environ.get("BUILDER") or BUILDER, "--tool=buildah"]
            options.append(f"--parts={parts}")
            return command(sys.executable, str(ROOT / "images" / "build.py"), role, *options).strip().splitlines()[-1]

        @cache
        def start(role: str) -> Future[str]:
            return base if role == "base" else worker.submit(build, role)

        yield start


def make_base() -> str:
    """The image that the images run on, which can run here."""
    if not (os.environ.get("BASE") and os.environ.get("BUILDER")):
        command(str(ROOT / "images" / "debian.sh"))
    base = os.environ.get("BASE") or BASE
    refused = subprocess.run(
        ["podman", "run", "--rm", "--network=none", base, "true"], capture_output=True, text=True, check=False
    )
    if refused.returncode:
        pytest.skip(f"this machine lets no container run: {refused.stderr.strip()[-500:]}")
    return base


@pytest.fixture(scope="session")
def built(building: Callable[[str], Future[str]]) -> Callable[[str], str]:
    """Waits for the image of a role and gives its name."""
    return lambda role: building(role).result()


@pytest.fixture(scope="session")
def serving_image(built: Callable[[str], str]) -> str:
    return built("serving")


@pytest.fixture(scope="session")
def ledger_image(built: Callable[[str], str]) -> str:
    return built("ledger")


@pytest.fixture(scope="session")
def pipeline_image(built: Callable[[str], str]) -> str:
    return f"localhost/{built('pipeline')}"


@pytest.fixture(scope="session")
def trained(building: Callable[[str], Future[str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace as a training run on this machine leaves it, without a price; images are built meanwhile."""
    for role in ("ledger", "serving") if "serving" in os.environ.get(ASKED, "").split() else ("pipeline",):
        building(role)
    folder = tmp_path_factory.mktemp("trained")
    run("train", folder / "pipeline", TRAINING | {"workspace": str(folder / "workspace")})
    return folder / "workspace"


@pytest.fixture(scope="session")
def published(
    building: Callable[[str], Future[str]], trained: Path, tmp_path_factory: pytest.TempPathFactory
) -> PriceRecord:
    """The price that a re-solve on this machine publishes of that workspace; an image is built meanwhile."""
    building("pipeline")
    # The services' tests want the trained workspace without a price.
    here = tmp_path_factory.mktemp("here")
    shutil.copytree(trained, here / "workspace", symlinks=True)
    run("resolve", here / "pipeline", {"workspace": str(here / "workspace")})
    return price_of(here / "workspace")


@pytest.fixture(scope="session")
def docker_host(
    tools: None,
    tmp_path_factory: pytest.TempPathFactory,
    eventually: Callable[..., None],
) -> Iterator[str]:
    """Address of podman's service, which speaks Docker's API; gone after the tests."""
    path = tmp_path_factory.mktemp("docker") / "docker.sock"
    address = f"unix://{path}"
    service = subprocess.Popen(["podman", "system", "service", "--time=0", address])
    try:
        eventually(path.exists)
        yield address
    finally:
        service.terminate()
        service.wait(timeout=20)


@pytest.fixture(scope="session")
def in_image(docker_host: str, pipeline_image: str) -> Callable[..., dict[str, float]]:
    """Runs a pipeline with every step in a container of the project's image; gives the seconds of each step."""

    def start(pipeline: str, root: Path, arguments: dict[str, Any]) -> dict[str, float]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DOCKER_HOST", docker_host)
            return run(pipeline, root, arguments, image=pipeline_image)

    return start


@pytest.fixture(scope="session")
def trained_in_image(in_image: Callable[..., dict[str, float]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a workspace, which containers of the pipeline image have made, and of their artifacts."""
    folder = tmp_path_factory.mktemp("in-image")
    (folder / "workspace").mkdir()
    os.chown(folder / "workspace", USER, USER)
    in_image("train", folder / "pipeline", TRAINING | {"workspace": str(folder / "workspace")})
    return folder


@pytest.fixture(scope="session")
def registry(
    tools: None,
    free_port: Callable[[], int],
    eventually: Callable[..., None],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """Host and port of an empty registry of images and charts; gone after the tests."""
    folder, host = tmp_path_factory.mktemp("registry"), f"127.0.0.1:{free_port()}"
    settings = {
        "version": "0.1",
        "log": {"level": "error", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": {"addr": host, "secret": uuid.uuid4().hex},
    }
    (folder / "config.yml").write_text(json.dumps(settings))  # JSON is YAML
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(["docker-registry", "serve", str(folder / "config.yml")], stdout=log, stderr=log)
    try:

        def ready() -> bool:
            assert process.poll() is None, (folder / "log").read_text()
            try:
                return httpx.get(f"http://{host}/v2/", timeout=1).status_code == 200
            except httpx.HTTPError:
                return False

        eventually(ready)
        yield host
    finally:
        process.terminate()
        process.wait(timeout=20)
        shutil.rmtree(folder / "data", ignore_errors=True)


@pytest.fixture(scope="session")
def pods(trained: Path, serving_image: str, ledger_image: str) -> Iterator[Pods]:
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
