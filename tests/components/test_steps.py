"""A component hands a step what it asks for: its arguments, the paths that it reads and those that it writes."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from components import ray_job
from components.deliver import deliver
from components.learn_delivery import learn_delivery
from components.solve import solve
from components.solve_vouchers import solve_vouchers
from components.steps import STEPS
from components.train import train
from components.train_vouchers import train_vouchers

COMPONENTS = {
    "train": train,
    "solve": solve,
    "train-vouchers": train_vouchers,
    "solve-vouchers": solve_vouchers,
    "learn-delivery": learn_delivery,
    "deliver": deliver,
}
ARTIFACTS = {"training", "tables", "model", "state", "price", "sessions", "graphs", "bundle", "plan", "summary"}


class Ended(Exception):
    """The component has asked for its step."""


@pytest.mark.parametrize("name", STEPS)
def test_a_component_asks_for_its_step_by_the_steps_own_arguments(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def run_step(step: str, arguments: dict[str, Any], **how: Any) -> None:
        asked.update(step=step, arguments=arguments, **how)
        raise Ended

    monkeypatch.setattr(ray_job, "run_step", run_step)
    function = COMPONENTS[name].python_func
    given = {
        parameter: SimpleNamespace(path=str(tmp_path / parameter))
        if parameter in ARTIFACTS | {"metrics"}
        else {"workspace": "/workspace", "ray_job": "spring-ray-job"}.get(parameter, 1)
        for parameter in inspect.signature(function).parameters
    }
    with pytest.raises(Ended):
        function(**given)
    assert asked["step"] == name
    assert (asked["workspace"], asked["ray_job"]) == ("/workspace", "spring-ray-job")
    arguments = asked["arguments"]
    assert set(arguments) == set(inspect.signature(STEPS[name]).parameters)
    json.dumps(arguments)
    # A job's pods see the workspace and nothing else: every artifact is either read or written.
    assert {key for key in arguments if key in ARTIFACTS | {"figures"}} == {*asked["reads"], *asked["writes"]}
    assert not set(asked["reads"]) & set(asked["writes"])
