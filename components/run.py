"""Build a job from the arguments of a component, and run it."""

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.ray_job import run_job
from components.settings import split
from operations.common.job import job_class
from shadowprice.errors import StorageFailed


def run_component(name: str, arguments: Mapping[str, Any], *, options_of: str = "") -> Any:
    """Build the job called ``name`` from a component's arguments, run it, describe its artifacts and log its figures.

    Args:
        name: of the job.
        arguments: by field; an artifact stands for its path. ``metrics`` is the artifact of the figures. ``options``
            holds further fields; with ``jobs``, in the first step of a pipeline, they are the settings of all of its
            jobs (:func:`components.settings.split`). A ``workspace`` that the job itself does without is only checked.
        options_of: another job whose ``options`` these are; those that this job lacks are left out.

    Returns:
        What the job returns; None from a Ray job.

    Raises:
        InvalidInput: a job does not have an option, or it is of a wrong type, or the step sets it itself.
        StorageFailed: this user may not write to the workspace.
    """
    fields = {field: getattr(value, "path", value) for field, value in arguments.items()}
    if workspace := fields.get("workspace"):
        _check_writable(Path(workspace))
    taken = options_of or name
    options = split(fields.pop("options", {}), fields.pop("jobs", {}) or {taken: {}})[taken]
    ray_job = options.pop("ray_job", "")
    # The pipeline has chosen its branch by it.
    options.pop("canary", None)
    metrics = arguments.get("metrics")
    if metrics is not None:
        fields["figures"] = fields.pop("metrics")
    kind = job_class(name)
    if options_of:
        options = {option: value for option, value in options.items() if option in kind.option_names()}
    if "workspace" not in {field.name for field in dataclasses.fields(kind)}:
        fields.pop("workspace", None)
    job = kind(**fields, **options)
    for field in job.outputs:
        artifact = arguments["metrics" if field == "figures" and metrics is not None else field]
        artifact.metadata["description"] = job.meaning(field)
    result = run_job(job, ray_job=ray_job)
    if metrics is not None:
        for figure, value in json.loads(Path(metrics.path).read_text()).items():
            metrics.log_metric(figure, value)
    return result


def _check_writable(workspace: Path) -> None:
    """Refuse a volume of another user before any work; a fresh volume belongs to root."""
    if workspace.is_dir() and not os.access(workspace, os.W_OK):
        raise StorageFailed(
            f"{workspace} belongs to user {workspace.stat().st_uid}, and user {os.getuid()} of this step may not write "
            "there; install the chart on this claim first, whose pods give it their group (fsGroup), or for storage "
            f"without groups, such as NFS, run once as root: chown -R {os.getuid()} {workspace}"
        )
