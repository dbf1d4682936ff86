"""Steps of a pipeline on this machine, each in a container of the project's image, hardened as the chart's pods are.

They run on whatever ``DOCKER_HOST`` names: dockerd, or ``podman system service``. Resources, secrets and mounts of a
cluster do not apply.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kfp import local
from kfp.local import docker_task_handler

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
        InvalidInput: the workspace belongs to root, and no step runs as root.
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
    docker_task_handler.run_docker_container = run_container
    return local.DockerRunner(user=f"{owner.st_uid}:{owner.st_gid}", mounts=mounts, **HARDENED)


def run_container(client: Any, image: str, command: Sequence[str], volumes: Mapping[str, Any], **given: Any) -> int:
    """Run a container to its end, print its output, remove it, and return its exit status.

    Kubeflow's own function lets the daemon remove a container when it ends. It reports success where the container is
    gone before its status is read, so a step that fails at once would count as successful. This function replaces it.

    Args:
        client: of Docker's API.
        image: pulled where it is not there.
        command, volumes, given: as of ``client.containers.run``.

    Raises:
        docker.errors.DockerException: it could not be started, or somebody removed it before it ended.
    """
    container = client.containers.run(image, list(command), detach=True, volumes=volumes, **given)
    try:
        rest = b""
        for part in container.logs(stream=True):
            # Kubeflow indents what is printed at once: a line that comes in pieces is put together first.
            *lines, rest = re.split(rb"(?<=[\r\n])", rest + part)
            for line in lines:
                print(line.decode(errors="replace"), end="")
        print(rest.decode(errors="replace"), end="")
        return int(container.wait()["StatusCode"])
    finally:
        container.remove(force=True)
