"""Parameters of the pipelines: a few inputs, and ``settings``, one object with the options of all jobs.

Kubeflow's compiler and its API server sort parameters by name, so ``data`` and ``dataset`` come first in a form.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from components.settings import options_of, split
from shadowprice.errors import InvalidInput

F = TypeVar("F", bound=Callable[..., Any])
HOW = (
    'one JSON object; {"epochs": 40} sets an option of every job that has it, {"train": {"epochs": 40}} of one job; '
    "the first step refuses any other. Options and defaults of"
)


class Parameters(NamedTuple):
    """Parameters of one pipeline.

    inputs  names of all but ``settings``
    jobs    job → its options where they differ from the job's own defaults
    """

    inputs: tuple[str, ...]
    jobs: Mapping[str, dict[str, Any]]


SETTINGS = "settings"
DATA = ("workspace", "dataset", "data")
LEARNING: Mapping[str, dict[str, Any]] = {
    "prepare": {},
    "featurize": {},
    "train": {},
    "evaluate": {},
    "register": {},
}
PRICING: Mapping[str, dict[str, Any]] = {"measure": {}, "solve": {}}
PARAMETERS: Mapping[str, Parameters] = {
    "train": Parameters(DATA, LEARNING),
    "retrain": Parameters((*DATA, "log"), {**LEARNING, "harvest": {}, "promote": {}}),
    "embed": Parameters(DATA, {"prepare": {}}),
    "resolve": Parameters(("workspace", "log"), PRICING),
    "decide": Parameters(("workspace", "data"), {"decide": {}}),
    "delivery": Parameters(DATA, {**LEARNING, "train": {"workers": 0}, **PRICING}),
    "vouchers": Parameters(DATA, {**LEARNING, "train": {"workers": 0, "epochs": 30}, **PRICING}),
}


def arguments_of(pipeline: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a pipeline; what is no input is one of its settings.

    >>> arguments_of("resolve", {"workspace": "ws", "on_alarm": "pi"})
    {'workspace': 'ws', 'settings': {'on_alarm': 'pi'}}

    Args:
        pipeline: name.
        given: inputs, settings, and whole objects of settings as ``settings``, by name.

    Raises:
        InvalidInput: neither the pipeline nor one of its jobs has such a parameter, or it is of a wrong type.
    """
    inputs, jobs = PARAMETERS[pipeline]
    own = {name: value for name, value in given.items() if name in inputs}
    whole = given.get(SETTINGS, {})
    if not isinstance(whole, Mapping):
        raise InvalidInput(f"must be an object, got {whole!r}", field=SETTINGS)
    settings = {**whole, **{name: value for name, value in given.items() if name not in (*inputs, SETTINGS)}}
    split(settings, jobs)
    return own | ({SETTINGS: settings} if settings else {})


def usual(pipeline: str) -> dict[str, dict[str, Any]]:
    """Return job → the options that its step takes, with the defaults of the pipeline."""
    return {job: options_of(job) | own for job, own in PARAMETERS[pipeline].jobs.items()}


def described(pipeline: str) -> Callable[[F], F]:
    """Return a decorator that writes what may be set in the place ``{settings}`` of a pipeline's docstring."""

    def write(function: F) -> F:
        listed = "; ".join(f"{job}: {json.dumps(options)[1:-1]}" for job, options in usual(pipeline).items())
        function.__doc__ = (function.__doc__ or "").replace("{settings}", f"{HOW} {listed}")
        return function

    return write
