"""``python -m k8s.render``: write the plain manifests from the chart; ``--check`` writes nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from helm_python import Chart

from shadowprice.command.options import main_of

ROOT = Path(__file__).resolve().parent
CHART = ROOT.parent / "helm" / "shadowprice"
RENDERED = {ROOT / "base": "shadowprice", ROOT / "overlays" / "dev": "shadowprice-dev"}
"""Folder of rendered manifests → namespace that they are for; two in one namespace would replace each other."""
HEADER = "# Rendered from helm/shadowprice with values.yaml beside this file; `make manifests` writes it again.\n"


def rendered(folder: Path) -> str:
    """Return the manifests of a folder with values.yaml, without Helm's hooks and its own labels."""
    values: dict[str, Any] = yaml.safe_load((folder / "values.yaml").read_text())
    values["checks"] = {"crds": False}
    with Chart.load(CHART) as chart:
        files = chart.render(values, name="shadowprice", namespace=RENDERED[folder])
    documents = []
    for name in sorted(files):
        if not name.endswith(".yaml"):
            continue
        for document in yaml.safe_load_all(files[name]):
            if not document or "helm.sh/hook" in document["metadata"].get("annotations", {}):
                continue
            labels = document["metadata"].get("labels", {})
            labels.pop("helm.sh/chart", None)
            labels["app.kubernetes.io/managed-by"] = "kubectl"
            documents.append(document)
    return HEADER + yaml.safe_dump_all(documents, sort_keys=False, width=120)


def write(check: Annotated[bool, typer.Option("--check", help="write nothing")] = False) -> int:
    """Render the plain manifests from the chart; 1 when a file differs under ``--check``."""
    stale = []
    for folder in RENDERED:
        path, text = folder / "shadowprice.yaml", rendered(folder)
        if not path.exists() or path.read_text() != text:
            stale.append(str(path.relative_to(ROOT.parent)))
            if not check:
                path.write_text(text)
    if check and stale:
        print(f"not what the chart renders: {', '.join(stale)}; run make manifests", file=sys.stderr)
        return 1
    return 0


main = main_of(write, "python -m k8s.render")

if __name__ == "__main__":
    sys.exit(main())
