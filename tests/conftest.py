from __future__ import annotations

import atexit
import gc
import json
import multiprocessing.process
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from ctypes import CDLL
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[1]


@atexit.register
def _end_with_the_summary() -> None:
    """Silence the interpreter's very end, where DuckDB's bindings list what other modules still hold of them.

    Registered before those modules are imported, so it runs after whatever they have to say.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


SERVICES = {
    "benchmarks",
    "chart",
    "cli",
    "cluster",
    "components",
    "docs",
    "feature_repo",
    "images",
    "learning",
    "on_ray",
    "operations",
    "pipelines",
    "research",
    "runs",
    "serving",
}
"""Folders whose tests start services, Ray or programs of the system, run whole tables, or import all packages."""
PROGRAMS = {"helm", "kubectl", "running", "run_prometheus", "shared_data", "tool"}
"""Fixtures that need what is not part of the project."""
STARTERS = {"http", "HTTPServer", "ray", "start_http_server", "subprocess", "ThreadingHTTPServer"}
"""Names that a module imports whose tests start a program or listen."""
SLOW = {
    *("test_compaction.py", "test_compare.py", "test_conformance.py", "test_every_look.py", "test_replay.py"),
    *("test_models.py", "test_two_outcome.py", "test_vouchers.py"),
    *("test_caps.py", "test_gains.py", "test_group_budgets.py", "test_history.py", "test_pacers.py", "test_run.py"),
    *("test_shared_budgets.py", "test_side_budgets.py"),
    *("test_change_points.py", "test_folder.py", "test_highs.py", "test_mapping.py", "test_tie_sums.py"),
    *(
        "test_analysis.py",
        "test_arms.py",
        "test_evidence.py",
        "test_exploration.py",
        "test_joint.py",
        "test_what_if.py",
    ),
    *("test_devices.py", "test_network_models.py", "test_offers.py", "test_separate.py"),
    *("test_eom.py", "test_interim.py", "test_logged_policy.py", "test_mix.py", "test_report.py", "test_spillover.py"),
    "test_codes_are_unique_under_kills",
    "test_the_proximal_step_leaves_weights_that_change_at_the_planted_points_and_nowhere_else",
    "test_without_features_its_maximum_likelihood_is_pooled_adjacent_violators",
}
"""Files and tests, wherever they stand, that fit many models, simulate days, draw many trials, read many files or
kill processes."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import nothing of the folders of services where only fast tests are asked for."""
    return True if config.option.markexpr == "fast" and collection_path.name in SERVICES else None


def is_fast(item: pytest.Item) -> bool:
    """Return whether ``make test-fast`` runs a test: short, in this process, without services."""
    module = getattr(item, "module", None)
    return (
        not SLOW & {item.path.name, getattr(item, "originalname", "")}
        and not SERVICES & set(item.path.relative_to(ROOT).parts)
        and not PROGRAMS & set(getattr(item, "fixturenames", ()))
        and not STARTERS & set(vars(module) if module is not None else ())
    )


LONGEST = ("test_guides.py", "test_quickstart.py", "test_whole_runs.py")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import the test files and what they need without looking for garbage, which takes a quarter of that time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the fast tests, and let the longest files come first: all else fits beside them on the other workers."""
    for item in items:
        if is_fast(item):
            item.add_marker("fast")
    items.sort(key=lambda item: item.path.name not in LONGEST)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print why tests were skipped, one line for each reason with the number of its tests."""
    reports = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in reports)
    if reasons:
        terminalreporter.section(f"{reasons.total()} skipped", sep="=")
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count:4} {reason}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test marked fast, its fixtures included, that starts a process or listens on a socket."""
    if item.get_closest_marker("fast") is None:
        return (yield)

    def refuse(what: str) -> Callable[..., NoReturn]:
        def fail(*arguments: object, **options: object) -> NoReturn:
            pytest.fail(f"a fast test {what}; name its file or folder in tests/conftest.py")

        return fail

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "__init__", refuse("starts a program"))
        patch.setattr(subprocess.Popen, "__del__", lambda process: None)
        patch.setattr(multiprocessing.process.BaseProcess, "start", refuse("starts a process"))
        patch.setattr(socket.socket, "listen", refuse("listens on a socket"))
        return (yield)


@pytest.fixture(scope="module", autouse=True)
def leaks_show_where_they_arise() -> Iterator[None]:
    """Collect garbage after each file, so that an open file or socket fails the tests that left it.

    What is there before the first file, nearly a million objects of imported libraries, and what a file leaves alive is
    not looked at again: that would take half a second a file.
    """
    gc.freeze()
    yield
    gc.collect()


@pytest.fixture(scope="session")
def missing() -> Callable[[str], NoReturn]:
    """What to call when something a test needs is not here: the test is skipped, and fails in CI, which installs it."""

    def stop(reason: str) -> NoReturn:
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(reason)
        pytest.skip(reason)

    return stop


PACKAGES = {"promtool": "prometheus", "ip": "iproute2", "redis-cli": "redis-tools"}
"""Debian package of each command whose name differs."""


@pytest.fixture(scope="session")
def tool(missing: Callable[[str], NoReturn]) -> Callable[[str], str]:
    """Return a function that finds a command of the system, or skips the test and names the package to install.

    In place of ``redis-server`` stands the server of a Python package where the system has none.
    """

    def find(name: str) -> str:
        from benchmarks.faults.redis_server import redis_binary

        found = redis_binary() if name == "redis-server" else shutil.which(name)
        return found or missing(f"{name} is missing; apt-get install {PACKAGES.get(name, name)}")

    return find


@pytest.fixture
def running() -> Callable[[str], list[int]]:
    """Return a function that finds the processes whose command contains a text."""
    if not Path("/proc/self").exists():
        pytest.skip("this system has no /proc, in which processes are looked up")

    def find(text: str) -> list[int]:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                command = (process / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if text in command:
                found.append(int(process.name))
        return found

    return find


@pytest.fixture
def built(missing: Callable[[str], NoReturn]) -> Callable[[CDLL | None], None]:
    """What to call with an extension in C that a test needs."""

    def check(library: CDLL | None) -> None:
        if library is None:
            missing("the extensions in C were not built here; a C compiler is needed")

    return check


@dataclass
class Prometheus:
    """A running server and the port that it scrapes."""

    url: str
    process: subprocess.Popen[bytes]
    target: int


@pytest.fixture(scope="session")
def free_port() -> Callable[[], int]:
    """Gives a port that nothing listens on."""

    def find() -> int:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])

    return find


@pytest.fixture(scope="session")
def eventually() -> Callable[..., None]:
    """Waits for a condition, and fails when it does not come about."""

    def wait(what: Callable[[], bool], seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < deadline, "it never happened"
            time.sleep(0.05)

    return wait


@pytest.fixture(scope="session")
def run_prometheus(
    tool: Callable[[str], str], free_port: Callable[[], int], eventually: Callable[..., None]
) -> Callable[..., AbstractContextManager[Prometheus]]:
    """A context with a Prometheus in a folder that scrapes its ``target`` four times a second, or as it is told.

    Takes rules, other ports to scrape, and the labels that a port's series get, where given.
    """
    binary = tool("prometheus")

    @contextmanager
    def run(
        folder: Path,
        rules: Path | None = None,
        others: Sequence[int] = (),
        labels: Mapping[int, dict[str, str]] = {},
        often: str = "250ms",
    ) -> Iterator[Prometheus]:
        port, target = free_port(), free_port()
        scraped = [{"targets": [f"127.0.0.1:{n}"], "labels": labels.get(n, {})} for n in (target, *others)]
        job = {"job_name": "ledger", "static_configs": scraped}
        every = {"scrape_interval": often, "scrape_timeout": often, "evaluation_interval": "1s"}
        config = {"global": every, "scrape_configs": [job], "rule_files": [str(rules)] if rules else []}
        (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
        address = f"--web.listen-address=127.0.0.1:{port}"
        files = [f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen([binary, *files, address], stdout=log, stderr=subprocess.STDOUT)
        try:

            def ready() -> bool:
                assert process.poll() is None, (folder / "log").read_text()
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=1) as answer:
                        return int(answer.status) == 200
                except OSError:
                    return False

            eventually(ready)
            yield Prometheus(f"http://127.0.0.1:{port}", process, target)
        finally:
            process.terminate()
            process.wait(timeout=20)

    return run


@pytest.fixture(scope="session")
def examples() -> Path:
    """The folder of example tables that the docs describe."""
    return ROOT / "docs" / "examples" / "tables"


@pytest.fixture(scope="session")
def shared_data(missing: Callable[[str], NoReturn]) -> Path:
    """The data that lie beside the project; without them a test is skipped here and fails in CI."""
    folder = Path(os.environ.get("SHADOWPRICE_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        missing(f"no data folder at {folder}; set SHADOWPRICE_DATA")
    return folder


@pytest.fixture(scope="session")
def fit_intercepts() -> Callable[..., tuple[NDArray[np.float64], float]]:
    """Fits the hazard layer's intercepts alone, at their maximum in double precision.

    Given levels (J,), level (n,) and y (n,); gives the curve (J,) and the log-likelihood.
    """

    def fit(
        levels: NDArray[np.int64], level: NDArray[np.int64], y: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], float]:
        import torch

        from shadowprice.responses.layers.hazard import HazardLayer

        torch.set_default_dtype(torch.float64)
        try:
            layer = HazardLayer(1, levels)
            layer.start(level, y)
            h, index, target = torch.zeros(level.size, 1), torch.from_numpy(level), torch.from_numpy(y)
            optimizer = torch.optim.LBFGS(
                layer.parameters(),
                max_iter=3000,
                tolerance_grad=1e-14,
                tolerance_change=0,
                line_search_fn="strong_wolfe",
            )

            def closure() -> torch.Tensor:
                optimizer.zero_grad()
                loss = layer.loss(h, index, target).mean()
                loss.backward()
                return loss

            optimizer.step(closure)
            with torch.no_grad():
                curve = 1 - torch.exp(-layer(torch.zeros(1, 1)))
                return curve.numpy()[0], -float(layer.loss(h, index, target).sum())
        finally:
            torch.set_default_dtype(torch.float32)

    return fit
