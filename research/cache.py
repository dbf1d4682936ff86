"""Finished (table, seed) pairs on disk, each with the code it was measured by."""

import ast
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from research.table import ROOT, Rows
from research.took import Took

PROJECT = ("shadowprice", "benchmarks", "research", "operations", "feature_repo")
PARTS = "cache index papers primary registry summary table took worker write"
FRAMEWORK = {f"research.{part}" for part in PARTS.split()}
"""Modules that change no figure."""


@dataclass(frozen=True)
class Cache:
    """A folder with one JSON file per table, mode and seed."""

    folder: Path
    code: Mapping[str, str] = field(default_factory=dict)
    """File → digest when measuring began: a file that is edited meanwhile is not what was measured."""

    def path(self, table: str, seed: int, quick: bool) -> Path:
        """Return the file of that result."""
        return self.folder / ("quick" if quick else "full") / table / f"seed-{seed}.json"

    def read(self, table: str, seed: int, quick: bool, stale: bool = False) -> dict[str, Any] | None:
        """The finished result, unless there is none or (without ``stale``) its code has changed since."""
        path = self.path(table, seed, quick)
        if not path.is_file():
            return None
        found: dict[str, Any] = json.loads(path.read_text())
        fresh = all(digest(Path(file)) == was for file, was in found["code"].items())
        return found if fresh or stale else None

    def write(
        self,
        table: str,
        seed: int,
        quick: bool,
        rows: Rows,
        took: Took,
        module: str,
        figures: Mapping[str, str] | None = None,
    ) -> None:
        """Keep a result, whole or not at all, with a digest of every project file that is loaded now."""
        path = self.path(table, seed, quick)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        code = {file: self.code.get(file) or digest(Path(file)) for file in loaded(module)}
        part.write_text(json.dumps({"rows": rows, **asdict(took), "code": code, "figures": dict(figures or {})}))
        os.replace(part, path)


def loaded(module: str) -> list[str]:
    """Files of the project that this process has imported, and that of ``module``, relative to the project."""
    files = set()
    for name, each in list(sys.modules.items()):
        file = getattr(each, "__file__", None)
        if file and name.split(".")[0] in PROJECT and name not in FRAMEWORK:
            files.add(file)
    files.add(str(sys.modules[module].__file__))
    return sorted(os.path.relpath(file, ROOT) for file in files if file.endswith(".py"))


def digests() -> dict[str, str]:
    """Digest of every Python file of the project, relative to it."""
    files = sorted(file for name in PROJECT for file in (ROOT / name).rglob("*.py"))
    return {str(file.relative_to(ROOT)): digest(file.relative_to(ROOT)) for file in files}


def digest(file: Path) -> str:
    """Digest of a Python file's code; comments, docstrings and layout do not count. Empty when it is gone."""
    path = ROOT / file
    if not path.is_file():
        return ""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:16]
