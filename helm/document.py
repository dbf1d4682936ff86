"""``python helm/document.py``: write the chart's README from values.yaml and its comments, as helm-docs does."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from shadowprice.command.options import main_of

CHART = Path(__file__).resolve().parent / "shadowprice"
HEAD = """\
# shadowprice

One release is one campaign, or several of them (`campaigns`): a decision predictor (a KServe InferenceService in
`Standard` mode), a ledger, the hourly re-solve of each price, and their monitoring. KServe, KubeRay, Kubeflow
Pipelines, Feast's Redis and the Prometheus operator are prerequisites and not part of the chart:
see [install on a cluster](../../docs/how-to/install-on-a-cluster.md).

    helm install spring helm/shadowprice --namespace growth --values docs/examples/install/values.yaml
    helm test spring --namespace growth

The predictor is ready when the workspace holds the results of a training run (`campaign.json`, `model/`, `features/`,
`prices/`) and the ledger answers. Claims are kept when the release is uninstalled.

In a mesh, Ray's pods and jobs have no sidecar, because one that is no native sidecar never lets a job end. Istio 1.27
makes sidecars native where every node has Kubernetes 1.33: there, `sidecar.istio.io/inject: "true"` in `podLabels` of a
job is safe.

## Values

A default stands in brackets; `{…}` stands in `values.yaml`.

"""
LONGEST = 60
"""Characters of a default that is printed."""


def write(check: Annotated[bool, typer.Option("--check", help="write nothing")] = False) -> int:
    """Write README.md; 1 under ``--check`` when it is out of date."""
    rows: dict[str, tuple[list[str], list[str]]] = {}
    for path, default, comment in values():
        paths, defaults = rows.setdefault(comment, ([], []))
        paths.append(f"`{path}`")
        defaults.append(f"`{_short(default)}`")
    text = HEAD + "".join(
        f"- {', '.join(paths)} ({', '.join(defaults if len(set(defaults)) > 1 else defaults[:1])}): {comment}\n"
        for comment, (paths, defaults) in rows.items()
    )
    readme = CHART / "README.md"
    if check:
        return int(not readme.exists() or readme.read_text() != text)
    readme.write_text(text)
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


main = main_of(write, "python helm/document.py")

if __name__ == "__main__":
    sys.exit(main())
