import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from looking import LOOKS, browser, faults, show
from snippets import Machine

from serving.local.launch import Services

ROOT = Path(__file__).resolve().parents[2]

Run = tuple[Path, dict[str, Any]]


@pytest.fixture(scope="session")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """Runs ``python -m pipelines.quickstart`` and gives the run's folder and its summary."""

    def start(*arguments: str) -> Run:
        runs = tmp_path_factory.mktemp("runs")
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "pipelines.quickstart",
            "--json",
            "--runs",
            str(runs),
            *arguments,
        ]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, cwd=ROOT, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        told = json.loads(done.stdout)
        folder = (runs / "latest").resolve()
        assert (told["run"], told["report"]) == (str(folder), str(folder / "report.html"))
        assert told["summary"] == json.loads((folder / "summary.json").read_text())
        return folder, told["summary"]

    return start


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """Follows commands in a folder, by the interpreter of the tests."""
    programs = tmp_path_factory.mktemp("programs")
    for name, words in {"python": "", "shadowprice": "-m shadowprice"}.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -W ignore {words} "$@"\n')
        program.chmod(0o755)
    known = {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "COLUMNS": "79"}

    def follow(folder: Path, commands: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-e", "-c", commands], cwd=folder, env=os.environ | known, capture_output=True, text=True
        )

    return follow


@pytest.fixture(scope="session")
def world(quickstart: Callable[..., Run]) -> Run:
    """The default run; SHADOWPRICE_RUN names one that was made before."""
    made = os.environ.get("SHADOWPRICE_RUN")
    if not made:
        return quickstart("--dataset", "world")
    folder = Path(made).resolve()
    return folder, json.loads((folder / "summary.json").read_text())


@pytest.fixture(scope="session")
def look_at(tool: Callable[[str], str]) -> Callable[..., Callable[[Services], None]]:
    """Gives what looks at pages of a console, and at files, in a browser on a phone and a desk; a fault fails."""

    def pages(*paths: str) -> Callable[[Services], None]:
        def look(services: Services) -> None:
            with browser(tool("chromium")) as opened:
                page = opened.new_page()
                for path in paths:
                    file = path.startswith("file:")
                    answer = page.goto(path if file else f"{services.console_url}/{path}")
                    assert answer is not None
                    assert file or answer.status == 200, path
                    for width, medium in (LOOKS[0], LOOKS[3]):
                        show(page, width, medium)
                        assert faults(page) == [], (path, width, medium)

        return look

    return pages
