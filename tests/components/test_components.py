"""A component builds the job of its name from its arguments, and runs it."""

from __future__ import annotations

import inspect
import json
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from components import run as component
from operations.common.job import JOBS, Job

VALUES: dict[str, Any] = {"str": "", "int": 1, "float": 0.5, "bool": False, "dict": {"rows": 5}, "list": ["http://a"]}
GIVEN = {"workspace": "/workspace", "ray_job": "spring-ray-job", "dataset": "world", "weighting": "known"}
EITHER = {"solve": ["state", "model"]}
"""Inputs of which a job takes exactly one."""
UNUSED: dict[str, dict[str, Any]] = {"offpolicy": {"arm": "", "price": -1.0, "budget": -1}}
"""Options of which a job takes exactly one: those that are not given."""


class Ended(Exception):
    """The component has built its job."""


def built(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leave_out: str = "") -> tuple[Job, dict, dict]:
    """The job of a component, how it is run, and the arguments; artifacts are told apart by their paths."""
    asked: list[Any] = []

    def take(job: Job, **how: Any) -> None:
        asked.extend([job, how])
        raise Ended

    monkeypatch.setattr(component, "run_job", take)
    function = getattr(import_module(f"components.{name}"), name).python_func
    arguments = {
        parameter: GIVEN[parameter]
        if parameter in GIVEN
        else VALUES[kind.annotation.__name__]
        if getattr(kind.annotation, "__name__", "") in VALUES
        else SimpleNamespace(path=str(tmp_path / parameter), metadata={})
        for parameter, kind in inspect.signature(function).parameters.items()
        if parameter != leave_out
    } | UNUSED.get(name, {})
    with pytest.raises(Ended):
        function(**arguments)
    return asked[0], asked[1], arguments


@pytest.mark.parametrize("name", JOBS)
def test_a_component_hands_every_argument_to_the_field_of_its_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for left_out in EITHER.get(name, [""]):
        job, how, arguments = built(name, tmp_path, monkeypatch, left_out)
        assert job.name == name
        json.loads(job.to_json())
        for field, path in {**job.inputs, **job.outputs}.items():
            assert path == tmp_path / ("metrics" if field == "figures" else field)
        for field in job.outputs:
            artifact = arguments["metrics" if field == "figures" else field]
            assert artifact.metadata["description"] == job.meaning(field) != ""
        assert how == {"ray_job": "spring-ray-job" if name in ("featurize", "train", "solve") else ""}
        if how["ray_job"]:
            # The pods of a Ray job see the workspace and nothing else: every other path is declared.
            paths = {field for field, value in vars(job).items() if isinstance(value, Path)}
            assert paths == {*job.inputs, *job.outputs, "workspace"}
