"""Settings of a pipeline: the options of its jobs in one object, which the first step checks and splits."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from operations.common.job import job_class
from shadowprice.errors import InvalidInput

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
    own = {name: default for name, default in job_class(job).options().items() if name not in set_by_step}
    return own | {name: default for name, (default, steps) in OF_STEPS.items() if job in steps}


def split(settings: Mapping[str, Any], jobs: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return job → its options.

    A setting is an option, which goes to every job that has it, or a job with options of that job alone.

    >>> split({"workers": 2, "solve": {"on_alarm": "pi"}}, {"measure": {}, "solve": {"workers": 0}})
    {'measure': {}, 'solve': {'workers': 2, 'on_alarm': 'pi'}}

    Args:
        settings: by name.
        jobs: job → options where the pipeline's default is another than the job's.

    Raises:
        InvalidInput: no job has such an option, or it is of a wrong type.
    """
    known = {job: options_of(job) for job in jobs}
    found = {job: dict(usual) for job, usual in jobs.items()}
    for name, value in settings.items():
        if name not in jobs:
            takers = [job for job in jobs if name in known[job]]
            if not takers:
                listed = "; ".join(f"{job}: {', '.join(own)}" for job, own in known.items() if own)
                raise InvalidInput(f"no step lets you set it; there are: {listed or 'none'}", field=name)
            for job in takers:
                found[job][name] = value
        elif not isinstance(value, Mapping):
            raise InvalidInput(f"must be an object of options of {name}, got {value!r}", field=name)
    for job in settings.keys() & jobs.keys():
        for name in settings[job].keys() - known[job].keys():
            raise InvalidInput(f"is no option of {job}; there are: {', '.join(known[job]) or 'none'}", field=name)
        found[job] |= settings[job]
    for job, options in found.items():
        for name in options.keys() & OF_STEPS.keys():
            kind = type(OF_STEPS[name][0])
            if not isinstance(options[name], kind):
                raise InvalidInput(f"must be {kind.__name__}, got {options[name]!r}", field=name)
        job_class(job).check_options({name: value for name, value in options.items() if name not in OF_STEPS})
    return found
