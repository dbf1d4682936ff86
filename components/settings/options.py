"""Options that a user gives to the step of a job: fields of the job, and what is about the step itself."""

import ast
from collections.abc import Mapping
from pathlib import Path
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
    own = {name: default for name, default in job_class(job).defaults().items() if name not in inputs_of_step(job)}
    return own | {name: default for name, (default, steps) in OF_STEPS.items() if job in steps}


def inputs_of_step(job: str) -> set[str]:
    """Return the inputs that the component of a job takes, without ``options``.

    They are read from its source: inside a step kfp has no decorator, and its components cannot be imported.
    """
    source = Path(__file__).parents[1] / f"{job}.py"
    for node in ast.parse(source.read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name == job:
            given = [*node.args.args, *node.args.kwonlyargs]
            return {each.arg for each in given if each.annotation and "Output[" not in ast.unparse(each.annotation)} - {
                "options"
            }
    raise LookupError(f"{source} has no component {job}")
