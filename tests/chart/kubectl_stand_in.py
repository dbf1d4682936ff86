"""A program ``kubectl`` that answers ``get`` from recorded objects, and fails as kubectl does."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NAMESPACE = "growth"
CLUSTER_WIDE = ("customresourcedefinitions", "namespaces")


def install(folder: Path, objects: Sequence[dict[str, Any]], absent: Sequence[str] = (), forbidden: str = "") -> None:
    """Write the program and what it answers from.

    Args:
        folder: to be put on the path.
        objects: of the cluster; without a namespace they are in ``growth``.
        absent: resources that the API server does not have.
        forbidden: resource that nobody may read.
    """
    state = {"objects": [*objects], "absent": [*absent], "forbidden": forbidden}
    (folder / "objects.json").write_text(json.dumps(state))
    program = folder / "kubectl"
    program.write_text(f"#!{sys.executable} -IS\n{Path(__file__).read_text()}\nsys.exit(main(sys.argv[1:]))\n")
    program.chmod(0o755)


def main(words: Sequence[str]) -> int:
    """Print what kubectl prints; return its status."""
    state = json.loads(Path(__file__).with_name("objects.json").read_text())
    options = dict(word.removeprefix("--").partition("=")[::2] for word in words if word.startswith("--"))
    space = words[words.index("--namespace") + 1] if "--namespace" in words else ""
    verb, kind, *names = [word for word in words if not word.startswith("--") and word != space]
    resource = kind.partition(".")[0]
    assert (verb, options["output"]) == ("get", "json"), words
    if resource in state["absent"]:
        print(f'error: the server doesn\'t have a resource type "{resource}"', file=sys.stderr)
        return 1
    if resource == state["forbidden"]:
        print(f"Error from server (Forbidden): {resource} is forbidden", file=sys.stderr)
        return 1
    assert space or "all-namespaces" in options or resource in (*CLUSTER_WIDE, "namespace"), words
    found = [
        entry
        for entry in state["objects"]
        if f"{entry['kind'].lower().removesuffix('y')}{'ies' if entry['kind'].endswith('y') else 's'}"
        == (resource if resource.endswith("s") else f"{resource}s")
        and space in ("", entry["metadata"].setdefault("namespace", "growth"))
        and (not names or entry["metadata"]["name"] in names)
        and entry["metadata"].get("labels", {}).items()
        >= dict([pair.split("=") for pair in filter(None, options.get("selector", "").split(","))]).items()
    ]
    if resource == "namespace":
        if not found:
            print(f'Error from server (NotFound): namespaces "{names[0]}" not found', file=sys.stderr)
            return 1
        print(json.dumps(found[0]))
    elif found or "ignore-not-found" not in options:
        print(json.dumps({"kind": "List", "items": found}))
    return 0
