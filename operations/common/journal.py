"""Changes that jobs make in a workspace, with the user who ran the job."""

import getpass
import json
import os
import socket
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from shadowprice.documents import parse_json


def actor() -> str:
    """User, machine and release that run this process. In a cluster the machine is the pod, named after job or run."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run as a user id without a name
        user = f"user {os.getuid()}"
    return f"{user} on {socket.gethostname()}, shadowprice {version('shadowprice')}"


def note(file: Path, **facts: Any) -> None:
    """Append a change to a file of JSON objects, one a line, with its time and :func:`actor`."""
    with file.open("a") as opened:
        opened.write(json.dumps({"at": datetime.now(UTC).isoformat(), "by": actor(), **facts}) + "\n")


def notes(file: Path) -> list[dict[str, Any]]:
    """Changes in a file, the oldest first; none without a file. A line that was not written whole is left out."""
    read = []
    for line in file.read_text().splitlines() if file.exists() else []:
        try:
            read.append(parse_json(line))
        except ValueError:
            continue
    return read
