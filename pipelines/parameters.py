"""Parameters of the pipelines: inputs, and for each job the options that it takes, in a parameter of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from operations.common.job import job_class
from shadowprice.errors import InvalidInput


class Parameters(NamedTuple):
    """Parameters of one pipeline.

    inputs  names of those that are no options of a job
    jobs    job → its options where they differ from the job's own defaults; the parameter is ``<job>_options``
    """

    inputs: tuple[str, ...]
    jobs: Mapping[str, dict[str, Any]]


DATA = ("workspace", "dataset", "data")
PARAMETERS: Mapping[str, Parameters] = {
    "train": Parameters(
        (*DATA, "ray_job"), {"prepare": {}, "featurize": {}, "train": {}, "evaluate": {}, "register": {}}
    ),
    "retrain": Parameters(
        (*DATA, "log", "canary", "ray_job"),
        {"prepare": {}, "harvest": {}, "featurize": {}, "train": {}, "evaluate": {}, "register": {}},
    ),
    "embed": Parameters(DATA, {"prepare": {}}),
    "resolve": Parameters(("workspace", "log", "ray_job"), {"measure": {}, "solve": {}}),
    "decide": Parameters(("workspace", "data", "ray_job"), {"decide": {}}),
    "delivery": Parameters(
        (*DATA, "ray_job"), {"prepare": {}, "featurize": {}, "train": {"workers": 0}, "evaluate": {}, "register": {}}
    ),
    "vouchers": Parameters(
        (*DATA, "ray_job"),
        {"prepare": {}, "featurize": {}, "train": {"workers": 0, "epochs": 30}, "evaluate": {}, "register": {}},
    ),
}


def arguments_of(pipeline: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a pipeline; an option goes to every job of the pipeline that has it.

    >>> arguments_of("resolve", {"workspace": "ws", "on_alarm": "pi"})
    {'workspace': 'ws', 'solve_options': {'on_alarm': 'pi'}}

    Args:
        pipeline: name.
        given: inputs, options of its jobs, and whole parameters ``<job>_options``, by name.

    Raises:
        InvalidInput: neither the pipeline nor one of its jobs has such a parameter, or it is of a wrong type.
    """
    inputs, jobs = PARAMETERS[pipeline]
    names = {f"{job}_options": job for job in jobs}
    own = {name: value for name, value in given.items() if name in inputs}
    options = {job: dict(given.get(parameter, {})) for parameter, job in names.items()}
    for name in given.keys() - own.keys() - names.keys():
        takers = [job for job in jobs if name in job_class(job).option_names()]
        for job in takers:
            options[job][name] = given[name]
        if not takers:
            raise InvalidInput(
                f"the pipeline {pipeline} and its jobs {', '.join(jobs)} have no such option", field=name
            )
    for job, values in options.items():
        job_class(job).check_options(values)
    return own | {f"{job}_options": {**jobs[job], **values} for job, values in options.items() if values}
