"""The recipes of CONTRIBUTING.md: applied as printed to a copy of the code, they add what they say, where they say."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from snippets import FENCED, ROOT

from benchmarks.faults.redis_server import RedisServer

PAGE = (ROOT / "CONTRIBUTING.md").read_text()
PACKAGES = ("shadowprice", "serving", "operations", "feature_repo", "benchmarks")
STEP = re.compile(r"(?:New file `(.+?)`|In `(.+?)`,\s(after|before|in place of)\s`(.+?)`):\n\n$", re.DOTALL)
SECTION = re.compile(r"^### (.+?)\n(.*?)(?=^##)", re.DOTALL | re.MULTILINE)
SECTIONS = dict(SECTION.findall(PAGE))


def files(folder: Path) -> dict[str, bytes]:
    """Return the content of every file of the packages that is not compiled, by its path."""
    paths = (path for name in PACKAGES for path in (folder / name).rglob("*"))
    kept = (path for path in paths if path.is_file() and path.suffix not in (".pyc", ".so"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in kept}


def apply(folder: Path, section: str) -> None:
    """Write, insert and run what a section prints; each block has its place in the sentence before it."""
    blocks = 0
    for block in FENCED.finditer(section):
        blocks += 1
        if block[2] == "sh":
            words = block[3].split()
            assert words[:2] == ["python", "-m"]
            run(folder, *words[1:])
            continue
        step = STEP.search(section[: block.start()].rpartition("```")[2])
        assert step, block[3]
        new, named, where, beginning = step.groups()
        if new:
            assert not (folder / new).exists()
            (folder / new).write_text(block[3])
            continue
        lines = (folder / named).read_text().splitlines(keepends=True)
        [place] = [number for number, line in enumerate(lines) if line.strip().startswith(beginning)]
        apart = "\n\n" if where == "before" and not block[3].startswith(" ") else ""
        lines[place + (where == "after") : place + (where != "before")] = [block[3] + apart]
        (folder / named).write_text("".join(lines))
    assert blocks


def run(folder: Path, *words: str) -> str:
    """Run Python on the copy; its output."""
    path = os.pathsep.join(map(str, (folder, ROOT / "tests/serving/predictor", ROOT / "tests/docs")))
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def redis(tmp_path: Path, tool: Callable[[str], str]) -> Iterator[str]:
    tool("redis-server")
    server = RedisServer(tmp_path / "redis")
    server.start()
    yield server.url
    server.stop()


RESPONSES, LEDGER = "shadowprice/responses", "serving/ledger"
GENERATED = (f"{LEDGER}/api/items.py", "serving/predictor/ledger/columns.py")
FIELD = ("shadowprice/pacing/decision_log/records.py", f"{LEDGER}/sqlite/database.py", "serving/predictor/wanted.py")
PAGE_OF_A_REQUEST = "serving/console/templates/request.html.jinja"
TOUCHED = {
    "A response model": (
        "2: the model, the registry; with an input of its own 4",
        [f"{RESPONSES}/{name}" for name in ("tabular/newcomer.py", "registry.py", "inputs.py")]
        + ["shadowprice/learning/labeling.py"],
    ),
    "A response layer": (
        "2: the layer, the heads",
        [f"{RESPONSES}/layers/{name}.py" for name in ("shared_slope", "heads")],
    ),
    "A pacer": ("1 new file", ["shadowprice/pacing/pacers/every_other_hour.py"]),
    "A logged field": ("4 and two generated", [*FIELD, PAGE_OF_A_REQUEST, *GENERATED]),
    "A kind of limit": (
        "2: the kind, the limits",
        ["shadowprice/limits/quota.py", "shadowprice/limits/limits.py"],
    ),
}
"""Recipe → what its row of the table says, and the files that it touches."""


@pytest.mark.parametrize("name", TOUCHED)
def test_a_recipe_adds_what_it_says_and_touches_the_files_that_it_counts(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    copy, own = tmp_path / "copy", tmp_path / "own"
    own.mkdir()
    for package in PACKAGES:
        shutil.copytree(ROOT / package, copy / package)
    before = files(copy)
    more = [request.getfixturevalue("redis")] if name in ("A logged field", "A kind of limit") else []
    proof = str(ROOT / "tests/docs/recipes_used.py")
    if more:
        run(ROOT, proof, "before", str(own), *more)
    apply(copy, SECTIONS[name])
    after = files(copy)
    changed = {path for path in after if before.get(path) != after[path]}
    told, touched = TOUCHED[name]
    assert changed == set(touched)
    assert re.findall(rf"^\| \[{name.lower()}\].*?\| (.+?) \|", PAGE, re.MULTILINE) == [told]
    python = [path for path in sorted(changed) if path.endswith(".py") and path not in GENERATED]
    for check in (["check"], ["format", "--check"]):
        run(copy, "-m", "ruff", *check, "--no-cache", "--config", str(ROOT / "pyproject.toml"), *python)
    thing = name.split()[-1]
    assert run(copy, proof, thing, str(own), *more).splitlines()[-1] == f"{thing} works in {copy}"
