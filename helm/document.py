"""``python helm/document.py``: write the chart's README from values.yaml and its comments, as helm-docs does."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).resolve().parent / "shadowprice"
HEAD = """\
# shadowprice

One release is one campaign: its decision predictor (a KServe InferenceService in `Standard` mode), its ledger, the
hourly re-solve of the price, and its monitoring. KServe, KubeRay, Kubeflow Pipelines, Feast's Redis and the
Prometheus operator are prerequisites and not part of the chart:
see [install on a cluster](../../docs/how-to/install-on-a-cluster.md).

    helm install spring helm/shadowprice --namespace growth \\
      --set campaign=spring --set features.online.redis.existingSecret=redis
    helm test spring --namespace growth

The predictor is ready when the workspace holds the results of a training run (`campaign.json`, `model/`, `features/`,
`prices/`) and the ledger answers. Claims are kept when the release is uninstalled.

## Values

| value | default | what |
|---|---|---|
"""


def main() -> int:
    """Write README.md; ``--check`` writes nothing and returns 1 when it is out of date."""
    text = HEAD + "".join(
        f"| `{path}` | `{json.dumps(default)}` | {comment} |\n" for path, default, comment in values()
    )
    readme = CHART / "README.md"
    if "--check" in sys.argv[1:]:
        return int(not readme.exists() or readme.read_text() != text)
    readme.write_text(text)
    return 0


def values() -> Iterator[tuple[str, Any, str]]:
    """Path, default and comment of every value that is not itself a mapping with values of its own."""
    source = (CHART / "values.yaml").read_text()
    comments = dict(_comments(source))

    def walk(node: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any, str]]:
        if isinstance(node, dict) and node:
            for key, value in node.items():
                yield from walk(value, (*path, key))
        else:
            # A comment above a mapping speaks for what lies in it.
            known = next((comments[path[:n]] for n in range(len(path), 0, -1) if path[:n] in comments), "")
            yield ".".join(path), node, known

    yield from walk(yaml.safe_load(source), ())


def _comments(source: str) -> Iterator[tuple[tuple[str, ...], str]]:
    path: list[tuple[int, str]] = []
    pending: list[str] = []
    for line in source.splitlines():
        body = line.strip()
        if body.startswith("#"):
            pending.append(body.lstrip("#").strip().removeprefix("-- "))
        elif body:
            indent = len(line) - len(line.lstrip())
            path = [(depth, key) for depth, key in path if depth < indent]
            path.append((indent, body.partition(":")[0]))
            if pending:
                yield tuple(key for _, key in path), " ".join(pending)
            pending = []
        else:
            pending = []


if __name__ == "__main__":
    sys.exit(main())
