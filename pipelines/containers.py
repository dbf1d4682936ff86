"""Steps of a pipeline on this machine, each in a container of the project's image, hardened as the chart's pods are.

They run on whatever ``DOCKER_HOST`` names: dockerd, or ``podman system service``. Resources, secrets and mounts of a
cluster do not apply. The container is removed as it ends, and its exit status may be gone with it: a failed step is
then known by what it has not written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kfp import local

from shadowprice.errors import InvalidInput, MissingExtra

HARDENED = {
    "read_only": True,
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges"],
    "tmpfs": {"/tmp": "rw,nosuid,nodev,mode=1777"},
    # A step reaches the ledger and Prometheus of this machine as its other processes do.
    "network_mode": "host",
}


def in_containers(root: Path, arguments: Mapping[str, Any]) -> local.DockerRunner:
    """The runner: a step sees the artifacts, the workspace and, read-only, the data, each under its own path.

    Args:
        root: folder of the artifacts; must exist.
        arguments: of the pipeline, with absolute paths.

    Raises:
        InvalidInput: the workspace belongs to root, as whom no step runs.
        MissingExtra: Docker's client for Python is not installed.
    """
    try:
        from docker.types import Mount
    except ImportError as error:
        raise MissingExtra("steps in containers need the Python package docker; install it") from error
    workspace = Path(arguments["workspace"])
    workspace.mkdir(parents=True, exist_ok=True)
    owner = workspace.stat()
    if owner.st_uid == 0:
        raise InvalidInput(f"{workspace} belongs to root; steps run as its owner: chown it", field="workspace")
    if os.geteuid() == 0:
        os.chown(root, owner.st_uid, owner.st_gid)
    mounts = [Mount(str(workspace), str(workspace), type="bind")]
    if data := arguments.get("data"):
        mounts.append(Mount(str(data), str(data), type="bind", read_only=True))
    return local.DockerRunner(user=f"{owner.st_uid}:{owner.st_gid}", mounts=mounts, **HARDENED)
