"""Steps that a run has finished: a file beside the step's outputs, written last and whole."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from shadowprice.files import write_whole

FILE = "finished.json"
KEPT = "finished before"
"""Line that a step prints in place of all others where it is not run again."""


@dataclass(frozen=True)
class Took:
    """Cost of a step: seconds, and the most memory of its processes in 10⁶ bytes, None where it was not measured."""

    seconds: float
    peak_memory_mb: float | None = None


def mark(folder: Path, inputs: Mapping[str, Any], took: Took) -> None:
    """Mark the step whose outputs are in ``folder`` as finished.

    Args:
        folder: of the step.
        inputs: JSON of what the step was given.
        took: cost of the step.
    """
    content = {"inputs": inputs, "outputs": _listed(folder), **asdict(took)}
    write_whole(folder / FILE, json.dumps(content, indent=1), durable=True)


def finished(folder: Path, inputs: Mapping[str, Any] | None = None) -> Took | None:
    """Return the cost of the step in ``folder``; None where it is not finished, or its outputs are not complete.

    Args:
        folder: of the step.
        inputs: those of now; a step that was given others is not finished.
    """
    try:
        content = json.loads((folder / FILE).read_bytes())
        whole = content["outputs"] == _listed(folder) and (inputs is None or content["inputs"] == inputs)
        return Took(content["seconds"], content["peak_memory_mb"]) if whole else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def unmark(folder: Path) -> None:
    """Remove the mark of the step in ``folder``, which begins anew."""
    (folder / FILE).unlink(missing_ok=True)


def _listed(folder: Path) -> dict[str, int]:
    """Return the size of each file of a folder, without the mark and drafts."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        str(path.relative_to(folder)): path.stat().st_size
        for path in files
        if path.name != FILE and not path.name.startswith(".")
    }
