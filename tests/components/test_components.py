"""A component builds the job of its name from its arguments, and runs it."""

import inspect
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
from kfp.dsl import Artifact, Markdown, Metrics

from components import run as component
from components.settings import options_of, split
from components.settings.options import inputs_of_step
from operations.common.job import JOBS, Job, job_class
from pipelines.local import PIPELINES
from pipelines.parameters import PARAMETERS, arguments_of
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.errors import InvalidInput

VALUES: dict[Any, Any] = {
    str: "",
    int: 1,
    float: 0.5,
    bool: False,
    dict: {"rows": 5},
    Mapping[str, Any]: {"rows": 5},
    tuple[str, ...]: ["http://a"],
}
GIVEN = {"workspace": "/workspace", "dataset": "world"}
WEIGHTING = {"weighting": "known"}
INPUTS = {"workspace", "dataset", "data", "log"}
SET_BY_PIPELINES = {("featurize", "keep_campaign"), ("register", "serve")} | {
    (job, "pipeline_run") for job in ("register", "promote")
}
"""Options that a pipeline or another job sets, and no user of the pipeline."""
UNUSED: dict[str, dict[str, Any]] = {"offpolicy": {"arm": "", "price": -1.0, "budget": -1}}
"""Options of which a job takes exactly one: those that are not given."""


class Ended(Exception):
    """The component has built its job."""


def built(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Job, dict, dict]:
    """The job of a component, how it is run, and the arguments; artifacts are told apart by their paths."""
    asked: list[Any] = []

    def take(job: Job, **how: Any) -> None:
        asked.extend([job, how])
        raise Ended

    monkeypatch.setattr(component, "run_job", take)
    function = component_of(name)
    arguments = {
        parameter: GIVEN[parameter]
        if parameter in GIVEN
        else str(tmp_path / parameter)
        if (name, parameter) == ("decide", "accounts")
        else {}
        if parameter in ("options", "jobs")
        else VALUES[kind.annotation]
        if kind.annotation in VALUES
        else SimpleNamespace(path=str(tmp_path / parameter), metadata={})
        for parameter, kind in inspect.signature(function).parameters.items()
    }
    if "options" in arguments:
        taken = "train" if name == "worth" else name
        types = job_class(taken)._types() | {"ray_job": str, "canary": bool}
        values = {option: VALUES[types[option]] for option in options_of(taken)}
        values |= {"ray_job": "spring-ray-job"} if "ray_job" in values and taken == name else {}
        arguments["options"] = values | UNUSED.get(name, {}) | (WEIGHTING if name == "featurize" else {})
    with pytest.raises(Ended):
        function(**arguments)
    return asked[0], asked[1], arguments


def component_of(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(import_module(f"components.{name}"), name).python_func
    return found


@pytest.mark.parametrize("name", JOBS)
def test_a_component_hands_every_argument_to_the_field_of_its_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, how, arguments = built(name, tmp_path, monkeypatch)
    assert job.name == name
    json.loads(job.to_json())
    values = job.values()
    given = arguments.get("options", {}).items()
    assert {option: values[option] for option, _ in given if option in values} == {
        option: value for option, value in given if option in values
    }
    for field, path in {**job.inputs, **job.outputs}.items():
        assert path == tmp_path / ("metrics" if field == "figures" else field)
    for field in job.outputs:
        artifact = arguments["metrics" if field == "figures" else field]
        assert artifact.metadata["description"] == job.meaning(field) != ""
    assert how == {"ray_job": "spring-ray-job" if name in ("decide", "featurize", "train", "solve") else ""}
    if how["ray_job"]:
        # The pods of a Ray job see the workspace and nothing else: every other path is declared.
        paths = {field for field, value in vars(job).items() if isinstance(value, Path)}
        assert paths == {*job.inputs, *job.outputs, "workspace"}


@pytest.mark.parametrize("name", JOBS)
def test_no_component_spells_an_option_of_its_job(name: str) -> None:
    """Its parameters are artifacts, what a pipeline wires or sets itself, fields without a default, and ``options``."""
    kind, parameters = job_class(name), inspect.signature(component_of(name)).parameters
    own = {option for option in kind.option_names() if option in parameters and option not in INPUTS | {"options"}}
    assert {(name, option) for option in own} <= SET_BY_PIPELINES
    lacking = (
        set() if "options" in parameters else {(name, option) for option in kind.option_names()} - SET_BY_PIPELINES
    )
    assert lacking == set()


def test_what_a_step_takes_is_known_inside_a_step_as_outside() -> None:
    """Inside a step kfp has no decorator, so no component can be imported."""
    program = (
        "import json, sys; from components import run; from components.settings import options_of;"
        "print(json.dumps({name: options_of(name) for name in sys.argv[1:]}))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *JOBS],
        env=os.environ | {"_KFP_RUNTIME": "true"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == json.loads(json.dumps({name: options_of(name) for name in JOBS}))
    for name in JOBS:
        step = getattr(import_module(f"components.{name}"), name).component_spec
        assert inputs_of_step(name) == step.inputs.keys() - {"options"}, name


@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_has_few_inputs_and_one_parameter_for_the_options_of_all_jobs(name: str) -> None:
    function = getattr(import_module(f"pipelines.{name}"), f"{name}_pipeline").pipeline_func
    inputs, jobs = PARAMETERS[name]
    defaults = {each.name: each.default for each in inspect.signature(function).parameters.values()}
    assert list(defaults) == [*inputs, "settings"]
    assert len(inputs) <= 4
    assert defaults["settings"] == {}
    assert split({}, jobs) == jobs
    taken = {option: job for job in jobs for option in options_of(job)}
    # The name of a setting is that of an option or that of a job, and of no input.
    assert taken.keys() & {*inputs, *JOBS} == set()


def test_an_option_goes_to_every_job_that_has_it_beside_the_pipelines_own_defaults() -> None:
    given = {"workspace": "ws", "seed": 3, "options": {"rows": 5}, "beat_uniform": False}
    found = arguments_of("vouchers", given)
    assert found == {"workspace": "ws", "settings": {"seed": 3, "options": {"rows": 5}, "beat_uniform": False}}
    jobs = split(found["settings"], PARAMETERS["vouchers"].jobs)
    assert jobs == {job: {} for job in PARAMETERS["vouchers"].jobs} | {
        "prepare": {"seed": 3, "options": {"rows": 5}},
        "train": {"workers": 0, "epochs": 30, "seed": 3},
        "evaluate": {"beat_uniform": False},
    }
    # An option of one job stands above that of all.
    both = {"settings": {"train": {"seed": 4}, "ray_job": "all"}, "seed": 3}
    jobs = split(arguments_of("train", both)["settings"], PARAMETERS["train"].jobs)
    assert (jobs["prepare"], jobs["train"]) == ({"seed": 3}, {"seed": 4, "ray_job": "all"})
    assert jobs["featurize"] == {"ray_job": "all"}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"epoch": 4}, "epoch: no step lets you set it; there are: prepare: seed, options; .*train: recipe, epochs, "),
        ({"epochs": "many"}, "epochs: must be int"),
        ({"settings": {"train": {"weighting": "known"}}}, "weighting: is no option of train; there are: recipe, "),
        ({"settings": {"train": 4}}, "train: must be an object of options of train"),
        ({"log": "folder"}, "log: no step lets you set it"),
        ({"canary": True}, "canary: no step lets you set it"),
    ],
)
def test_an_option_that_no_job_has_is_refused_before_a_run(given: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        arguments_of("train", given)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"options": {"seeds": 3}}, "seeds: no step lets you set it; there are: prepare: seed, options"),
        ({"options": {"dataset": "tables"}}, "dataset: no step lets you set it"),
        ({"options": {"evaluate": {"limit": {}}}, "jobs": {"prepare": {}, "evaluate": {}}}, "limit: is no option of"),
    ],
)
def test_the_first_step_refuses_options_of_its_own_and_of_later_ones(
    given: dict[str, Any], named: str, tmp_path: Path
) -> None:
    tables = SimpleNamespace(path=str(tmp_path / "tables"), metadata={})
    with pytest.raises(InvalidInput, match=named):
        component_of("prepare")(tables, "world", "", **given)
    assert list(tmp_path.iterdir()) == []


def test_the_first_step_gives_each_later_one_its_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(component, "run_job", lambda *_, **__: {})
    tables = SimpleNamespace(path=str(tmp_path / "tables"), metadata={})
    prepare = import_module("components.prepare").prepare
    settings = {"epochs": 4, "canary": True, "promote": {"most_days": 3}, "seed": 2}
    told = prepare.python_func(tables, "world", "", options=settings, jobs=PARAMETERS["retrain"].jobs)
    given = dict(zip((name for name in prepare.component_spec.outputs if name != "tables"), told, strict=True))
    assert given["train"] == {"epochs": 4, "seed": 2}
    assert (given["promote"], given["canary"]) == ({"most_days": 3}, True)
    assert given["measure"] == given["solve"] == given["harvest"] == {}


def test_the_figures_of_a_plan_are_those_that_kubeflow_shows(tmp_path: Path) -> None:
    terms, starts = Terms(levels=(0, 50)), datetime(2026, 3, 1, tzinfo=UTC)
    campaign = Campaign(name="spring", sides={"customer": terms}, budget=Budget(limit=9_000), starts_at=starts)
    (tmp_path / "campaign.json").write_text(json.dumps(campaign.to_dict()))
    made = {"result": Artifact, "page": Markdown, "metrics": Metrics}
    artifacts = {name: kind(name, uri=str(tmp_path / name)) for name, kind in made.items()}
    given = Artifact("campaign", uri=str(tmp_path / "campaign.json"))
    asked = {"prior": {"response": [0.1, 0.14], "money": 6.0}, "precision": {"lift": 0.005}}
    component_of("plan")(campaign=given, accounts=200_000, **artifacts, **asked)
    result = json.loads((tmp_path / "result").read_text())
    shown = artifacts["metrics"].metadata
    assert shown["detectable_gain"] == result["detectable"]
    assert shown["spend"] == pytest.approx(sum(result["money"].values()))
    assert shown["lift_half_width"] == result["half_widths"]["lift"] <= 0.005
    # A number that JSON does not know would keep Kubeflow from showing the others.
    assert all(math.isfinite(value) for name, value in shown.items() if name not in ("description", "display_name"))
    assert (tmp_path / "page").read_text().startswith("# Trial of campaign spring")


@pytest.mark.parametrize(
    ("name", "given"), [("publish", {"price": SimpleNamespace(path="p")}), ("prepare", {"dataset": "none", "data": ""})]
)
def test_a_volume_that_belongs_to_root_is_refused_with_what_to_do(name: str, given: dict[str, Any]) -> None:
    # Others may not enter pytest's own folder.
    with TemporaryDirectory() as folder:
        volume = Path(folder)
        volume.chmod(0o555)
        told = _told_another_user(volume, name, given | {"workspace": folder})
        volume.chmod(0o755)
    assert f"{volume} belongs to user {os.getuid()}, and user" in told
    assert "install the chart on this claim first, whose pods give it their group (fsGroup)" in told
    assert "chown -R" in told


def test_a_step_without_a_workspace_may_start_in_a_folder_of_another_user() -> None:
    # The folder of a container is root's: only a workspace has to be written to.
    with TemporaryDirectory() as folder:
        volume = Path(folder)
        volume.chmod(0o555)
        told = _told_another_user(volume, "prepare", {"dataset": "no such data set"})
        volume.chmod(0o755)
    assert "belongs to user" not in told
    assert "Permission" not in told


def _told_another_user(volume: Path, name: str, arguments: Mapping[str, Any]) -> str:
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            if os.getuid() == 0:
                os.setuid(10001)
            os.chdir(volume)
            component.run_component(name, arguments)
        except Exception as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    told = os.read(reading, 1000).decode()
    os.close(reading)
    return told
