"""The settings of a pipeline, split into the options of each job."""

from collections.abc import Mapping
from typing import Any

from components.settings.options import OF_STEPS, options_of
from operations.common.job import job_class
from shadowprice.errors import InvalidInput


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
