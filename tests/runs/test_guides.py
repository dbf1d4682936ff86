"""Guides that need one machine and no service, followed from their first line to their last in a fresh folder."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from snippets import ROOT, blocks, masked, printed, shell_of

pytestmark = pytest.mark.timeout(1500)

START = re.compile(r"^Start in the repository.*?(?:\n\n)", re.MULTILINE | re.DOTALL)
AFTER = re.compile(r"after\s+(?:`([^`]+)`|the run of \[[^]]+\]\(([\w-]+\.md)\))")
FOLLOWED = (
    "ask-what-another-budget-brings",
    "check-what-a-log-identifies",
    "decide-a-list",
    "erase-an-account",
    "estimate-another-policy",
    "fill-segments-of-exact-sizes",
    "find-a-fault",
    "run-an-experiment",
    "serve-the-flat-policy",
    "solve-large-problems",
    "watch-a-model",
    "your-own-files",
    "your-own-tables",
)
"""Guides whose commands run here; the others need a cluster, a service, an image or a file of the reader."""
ELSEWHERE = re.compile(
    r"/workspace|/ledger/|http://|localhost|address=\"auto\"|path/to|shadowprice (serve|explain)"
    r"|mapping\.yaml --workers"
)
"""Marks blocks that need a service or a cluster, and those that tests/runs/test_tutorial.py compares."""


def run_of(guide: Path) -> str:
    """Command of the run that a guide uses; empty where it needs none."""
    (start,) = START.findall(guide.read_text())
    after = AFTER.search(start)
    if after is None:
        assert "no run is needed" in start, guide.name
        return ""
    # A line break in code is read and copied as a space.
    return after[1].replace("\n", " ") if after[1] else run_of(guide.with_name(after[2]))


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path, str], subprocess.CompletedProcess[str]]:
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


@pytest.fixture(scope="module")
def made(
    machine: Callable[[Path, str], subprocess.CompletedProcess[str]], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """Gives the run that a command makes; each is made once."""
    found: dict[str, Path] = {}

    def make(command: str) -> Path:
        if command not in found:
            folder = tmp_path_factory.mktemp("made")
            (folder / "docs").symlink_to(ROOT / "docs")
            done = machine(folder, command)
            assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
            found[command] = (folder / "runs/latest").resolve()
        return found[command]

    return make


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_guide_runs_as_printed_and_prints_what_it_shows(
    name: str,
    machine: Callable[[Path, str], subprocess.CompletedProcess[str]],
    made: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (guide,) = (ROOT / "docs").glob(f"*/{name}.md")
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    if command := run_of(guide):
        shutil.copytree(made(command), tmp_path / "runs/guide", symlinks=True)
        (tmp_path / "runs/latest").symlink_to("guide")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    mine = [each for each in blocks() if each.page == str(guide.relative_to(ROOT))]
    followed = 0
    for block in sorted(mine, key=lambda each: each.line):
        commands = "" if ELSEWHERE.search(block.text) else shell_of(block)
        if commands:
            done = machine(tmp_path, commands)
            assert done.returncode == 0, f"{block}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
            if block.language == "console" and (shown := printed(block.text)):
                assert masked(done.stdout) == masked(shown), str(block)
        elif block.language == "python" and not ELSEWHERE.search(block.text):
            exec(compile(block.text, str(block), "exec"), names)
        else:
            continue
        followed += 1
    assert followed
