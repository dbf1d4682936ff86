"""``python helm/document.py``: print the chart's values with their comments, for the site."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).resolve().parent / "shadowprice"
LONGEST = 60
"""Characters of a default that is printed."""


def main() -> int:
    """Print one line for all values that share a comment."""
    rows: dict[str, tuple[list[str], list[str]]] = {}
    for path, default, comment in values():
        paths, defaults = rows.setdefault(comment, ([], []))
        paths.append(f"`{path}`")
        defaults.append(f"`{_short(default)}`")
    print("A default stands in brackets; `{…}` stands in `values.yaml`.\n")
    for comment, (paths, defaults) in rows.items():
        shown = defaults if len(set(defaults)) > 1 else defaults[:1]
        print(f"- {', '.join(paths)} ({', '.join(shown)}): {comment}")
    return 0


def _short(default: Any) -> str:
    text = json.dumps(default, ensure_ascii=False)
    return "{…}" if isinstance(default, dict) and len(text) > LONGEST else text


def values() -> Iterator[tuple[str, Any, str]]:
    """Path, default and comment of every value with a line of its own.

    Raises:
        LookupError: for a value without a comment directly above it.
    """
    source = (CHART / "values.yaml").read_text()
    lines = dict(_lines(source))

    def walk(node: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any, str]]:
        if isinstance(node, dict) and any((*path, key) in lines for key in node):
            for key, value in node.items():
                yield from walk(value, (*path, key))
        elif lines[path]:
            yield ".".join(path), node, lines[path]
        else:
            raise LookupError(f"values.yaml: {'.'.join(path)} has no comment that begins with '# -- '")

    yield from walk(yaml.safe_load(source), ())


def _lines(source: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Path of each line with a key, and the comment above it that begins with ``# --``; empty without one."""
    path: list[tuple[int, str]] = []
    pending: list[str] = []
    for line in source.splitlines():
        body = line.strip()
        if body.startswith("# -- ") or (pending and body.startswith("#")):
            pending.append(body.lstrip("#").strip().removeprefix("-- "))
        elif body and not body.startswith("#"):
            indent = len(line) - len(line.lstrip())
            path = [(depth, key) for depth, key in path if depth < indent]
            path.append((indent, body.partition(":")[0]))
            yield tuple(key for _, key in path), " ".join(pending)
            pending = []


if __name__ == "__main__":
    sys.exit(main())
