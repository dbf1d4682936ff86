"""What an API server, or the operator behind it, would refuse about the step from one state of a release to another."""

import re
import subprocess
from pathlib import Path
from typing import Any

from rendering import ROOT, Objects

# Kueue's webhook, unless the object is suspended.
QUEUE = "metadata.labels.kueue;x-k8s;io/queue-name"
IMMUTABLE = {
    "Deployment": ("spec.selector",),
    "Service": ("spec.clusterIP", "spec.type"),
    "PersistentVolumeClaim": ("spec.accessModes", "spec.storageClassName", "spec.volumeMode", "spec.volumeName"),
    "Job": ("spec.selector", "spec.template"),
    "RoleBinding": ("roleRef",),
    # KServe's webhook.
    "InferenceService": ("metadata.annotations.serving;kserve;io/deploymentMode",),
    # KubeRay follows the spec that a job was started with.
    "RayJob": ("spec", QUEUE),
    "RayCluster": (QUEUE,),
}
UNITS = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def previous_tag(root: Path = ROOT) -> str:
    """Return the tag of the release before HEAD; empty where there is none."""
    command = ["git", "-C", str(root), "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def chart_of(tag: str, folder: Path, root: Path = ROOT) -> Path:
    """Write the chart of a tag to a folder and return its place."""
    folder.mkdir(parents=True)
    packed = subprocess.run(["git", "-C", str(root), "archive", tag, "helm"], capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed.stdout, check=True)
    return folder / "helm" / "shadowprice"


def kept(objects: Objects) -> dict[str, dict[str, Any]]:
    """``kind/name`` → what may not change of it; hooks that are deleted before they are made again may."""
    found = {}
    for entry in objects:
        if "before-hook-creation" in entry["metadata"].get("annotations", {}).get("helm.sh/hook-delete-policy", ""):
            continue
        fields = {path: at(entry, path) for path in IMMUTABLE.get(entry["kind"], ())}
        if entry["kind"] == "PersistentVolumeClaim":
            fields["storage"] = entry["spec"]["resources"]["requests"]["storage"]
        found[f"{entry['kind']}/{entry['metadata']['name']}"] = fields
    return found


def refused(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> list[str]:
    """The changes that would be refused, of objects that are there before and after."""
    told = []
    for name in sorted(before.keys() & after.keys()):
        for field, value in before[name].items():
            now = after[name].get(field)
            if field == "storage":
                if size(now) < size(value):
                    told.append(f"{name}: {field} shrinks from {value} to {now}")
            elif now != value:
                told.append(f"{name}: {field} changes")
    return told


def at(entry: dict[str, Any], path: str) -> Any:
    """The value at a dotted path, in which ``;`` stands for a dot of a key; None where there is none."""
    value: Any = entry
    for key in path.split("."):
        value = value.get(key.replace(";", ".")) if isinstance(value, dict) else None
    return value


def size(quantity: str | float) -> float:
    """Bytes of a quantity."""
    number, unit = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", str(quantity)).groups()  # type: ignore[union-attr]
    return float(number) * UNITS[unit]
