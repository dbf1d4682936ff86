"""A test marked fast starts nothing: ``make test-fast`` needs no service, no program and no port."""

import multiprocessing
import re
import socket
from importlib import import_module
from pathlib import Path

import pytest


def test_a_fast_test_cannot_start_a_process_or_listen(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("fast") is not None
    with pytest.raises(pytest.fail.Exception, match="starts a program"):
        import_module("subprocess").run(["true"], check=False)
    with pytest.raises(pytest.fail.Exception, match="starts a process"):
        multiprocessing.get_context("spawn").Process(target=print).start()
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        with pytest.raises(pytest.fail.Exception, match="listens"):
            made.listen()


def test_a_test_that_needs_a_program_is_not_marked(request: pytest.FixtureRequest) -> None:
    """Every test of the session whose fixtures or module need one is left to ``make test``."""
    marked = [item for item in request.session.items if item.get_closest_marker("fast") is not None]
    assert marked
    assert not [item for item in marked if hasattr(item.module, "subprocess") or "tool" in item.fixturenames]


def test_continuous_integration_installs_every_program_that_a_test_asks_for() -> None:
    root = Path(__file__).resolve().parents[1]
    texts = (path.read_text() for path in (root / "tests").rglob("*.py"))
    asked = {name for text in texts for name in re.findall(r'\btool(?:"\))?\("([\w-]+)"\)', text)}
    # A Python package has the one, and Prometheus brings the other.
    asked -= {"redis-server", "promtool"}
    assert {"chromium", "redis-cli"} <= asked
    assert asked - set(re.findall(r"command -v ([\w-]+)", (root / ".ci/run").read_text())) == set()
