"""Options that a user gives to the step of a job: fields of the job, and what is about the step itself."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from operations.common.job import job_class

OF_STEPS: Mapping[str, tuple[Any, tuple[str, ...]]] = {
    "ray_job": ("", ("featurize", "train", "solve", "decide")),
    "canary": (False, ("promote",)),
}
"""Option of a step that is no field of its job → default, and the steps that have it.

``ray_job`` is the ConfigMap with the RayJob that the step runs in, empty for its own container. ``canary`` says whether
a model that passes the gate first decides for a small share beside the one in use.
"""


def options_of(job: str) -> dict[str, Any]:
    """Return the options that a user gives to the step of a job, with their defaults: none that the step itself sets.

    >>> options_of("solve")
    {'workers': 0, 'on_alarm': '', 'ray_job': ''}
    """
    set_by_step = getattr(import_module(f"components.{job}"), job).component_spec.inputs.keys() - {"options"}
    own = {name: default for name, default in job_class(job).defaults().items() if name not in set_by_step}
    return own | {name: default for name, (default, steps) in OF_STEPS.items() if job in steps}
