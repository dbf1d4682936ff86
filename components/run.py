"""From the arguments of a component to its job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.ray_job import run_job
from operations.common.job import job_class


def run_component(name: str, arguments: Mapping[str, Any]) -> Any:
    """Build the job called ``name`` from a component's arguments, run it, describe its artifacts and log its figures.

    Args:
        name: of the job.
        arguments: by field; an artifact stands for its path. ``metrics`` is the artifact of the figures, and
            ``ray_job`` the ConfigMap with the RayJob to run in, empty for this container.

    Returns:
        What the job returns; None from a Ray job.
    """
    fields = {field: getattr(value, "path", value) for field, value in arguments.items()}
    ray_job = fields.pop("ray_job", "")
    metrics = arguments.get("metrics")
    if metrics is not None:
        fields["figures"] = fields.pop("metrics")
    job = job_class(name)(**fields)
    for field in job.outputs:
        artifact = arguments["metrics" if field == "figures" and metrics is not None else field]
        artifact.metadata["description"] = job.meaning(field)
    found = run_job(job, ray_job=ray_job)
    if metrics is not None:
        for figure, value in json.loads(Path(metrics.path).read_text()).items():
            metrics.log_metric(figure, value)
    return found
