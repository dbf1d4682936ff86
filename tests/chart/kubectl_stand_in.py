"""A program ``kubectl`` that answers from recorded objects, and fails as kubectl does.

It knows ``get``, ``create``, ``delete`` and ``logs``. No controller is there: an object becomes what was recorded, a
step further at each ``get`` of its name.
"""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NAMESPACE = "growth"
CLUSTER_WIDE = ("customresourcedefinitions", "namespace")


def install(folder: Path, objects: Sequence[dict[str, Any]], **recorded: Any) -> None:
    """Write the program and what it answers from.

    Args:
        folder: to be put on the path.
        objects: of the cluster; without a namespace they are in ``growth``.
        recorded: ``absent`` resources that the API server does not have, the ``forbidden`` resource that nobody may
            read, the ``log`` of all, and what objects of a resource become: ``{"jobs": [fields, fields]}``.
    """
    (folder / "objects.json").write_text(json.dumps({"objects": [*objects], **recorded}))
    program = folder / "kubectl"
    program.write_text(f"#!{sys.executable} -IS\n{Path(__file__).read_text()}\nsys.exit(main(sys.argv[1:]))\n")
    program.chmod(0o755)


def main(words: Sequence[str]) -> int:
    """Print what kubectl prints; return its status."""
    file = Path(__file__).with_name("objects.json")
    state = json.loads(file.read_text())
    options = dict(word.removeprefix("--").partition("=")[::2] for word in words if word.startswith("--"))
    space = words[words.index("--namespace") + 1] if "--namespace" in words else ""
    verb, *names = [word for word in words if not word.startswith("--") and word != space]
    if verb == "create":
        entry = {"kind": "Job", "metadata": {"name": names[-1]}, "spec": {}} if names else _read(sys.stdin.read())
        state["objects"].append(entry)
        file.write_text(json.dumps(state))
        return 0
    if verb == "logs":
        print(state["log"])
        return 0
    resource, *_ = resources = [each.partition(".")[0] for each in names.pop(0).split(",")]
    for each in resources:
        if each in state.get("absent", ()):
            return _refused(f'error: the server doesn\'t have a resource type "{each}"')
        if each == state.get("forbidden"):
            return _refused(f"Error from server (Forbidden): {each} is forbidden")
    assert space or "all-namespaces" in options or resource in CLUSTER_WIDE, words
    asked = dict([pair.split("=") for pair in filter(None, options.get("selector", "").split(","))])
    found = [
        entry
        for entry in state["objects"]
        if {_plural(entry["kind"]), entry["kind"].lower()} & {*resources}
        and space in ("", entry["metadata"].get("namespace", NAMESPACE))
        and (not names or entry["metadata"]["name"] in names)
        and entry["metadata"].get("labels", {}).items() >= asked.items()
    ]
    if verb == "delete":
        state["objects"] = [entry for entry in state["objects"] if entry not in found]
        file.write_text(json.dumps(state))
        return 0
    steps = state.get(resource, [])
    if names and found and steps:
        found[0] |= steps.pop(0) if len(steps) > 1 else steps[0]
        file.write_text(json.dumps(state))
    if len(names) == 1 and not found and "ignore-not-found" not in options:
        return _refused(f'Error from server (NotFound): {_plural(resource)} "{names[0]}" not found')
    if len(names) == 1 and found:
        print(json.dumps(found[0]))
    elif found or "ignore-not-found" not in options:
        print(json.dumps({"kind": "List", "items": found}))
    return 0


def _plural(kind: str) -> str:
    return kind.lower() if kind.endswith("s") else re.sub("y$", "ie", kind.lower()) + "s"


def _refused(reason: str) -> int:
    print(reason, file=sys.stderr)
    return 1


def _read(text: str) -> dict[str, Any]:
    """Return an object; kubectl reads YAML, of which JSON is a part and all that this program knows."""
    found: dict[str, Any] = json.loads(text)
    return found
