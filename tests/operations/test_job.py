"""A job is checked when it is built, and is the same job after JSON."""

import dataclasses
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from operations import __main__ as command
from operations.common.job import JOBS, Job, job_class, run_here
from operations.featurize import FeaturizeJob
from operations.measure import MeasureJob
from operations.offpolicy import OffpolicyJob
from operations.prepare import PrepareJob
from operations.solve import SolveJob
from operations.train import TrainJob
from shadowprice.errors import InvalidInput, NotFound

EXAMPLES: dict[Any, Any] = {
    Path: Path("a/b"),
    Path | None: Path("c"),
    str: "none",
    int: 3,
    float: 0.5,
    bool: False,
    tuple[str, ...]: ("x", "y"),
    Mapping[str, Any]: {"rows": 5},
}


def example(kind: type[Job]) -> Job:
    fields = {name: EXAMPLES[hint] for name, hint in kind._types().items()}
    if kind is OffpolicyJob:
        fields |= {"arm": "", "price": -1.0, "budget": -1}
    return kind(**fields)


@pytest.mark.parametrize("name", JOBS)
def test_a_job_is_the_same_after_json_and_every_field_says_what_it_means(name: str) -> None:
    kind = job_class(name)
    job = example(kind)
    assert job.name == name
    assert kind.from_json(job.to_json()) == job
    assert all(len(field.metadata["text"]) > 5 for field in dataclasses.fields(kind))
    with pytest.raises(dataclasses.FrozenInstanceError):
        job.workspace = Path("other")  # type: ignore[attr-defined]


def test_paths_may_be_text_whole_numbers_floats_and_what_is_optional_empty() -> None:
    job = TrainJob(training="a", model="b", workspace="", figures="", epochs=4.0)  # type: ignore[arg-type]
    assert (job.training, job.workspace, job.figures, job.epochs) == (Path("a"), None, None, 4)
    assert isinstance(job.epochs, int)
    assert set(job.inputs) == {"training"}
    assert set(job.outputs) == {"model"}


@pytest.mark.parametrize(
    ("kind", "fields", "named"),
    [
        (TrainJob, {"training": "", "model": "m"}, "training"),
        (TrainJob, {"training": "t", "model": "m", "epochs": 1.5}, "epochs"),
        (TrainJob, {"training": "t", "model": "m", "epochs": True}, "epochs"),
        (TrainJob, {"training": "t", "model": "m", "workers": -1}, "workers"),
        (TrainJob, {"training": "t", "model": "m", "recipe": 7}, "recipe"),
        (PrepareJob, {"tables": "t", "options": "[]"}, "options"),
        (MeasureJob, {"state": "s", "workspace": "w", "metrics_urls": [1]}, "metrics_urls"),
        (FeaturizeJob, {"tables": "t", "training": "u", "workspace": "w", "weighting": "some"}, "weighting"),
        (SolveJob, {"price": "p", "workspace": "w", "state": ""}, "state"),
        (SolveJob, {"price": "p", "workspace": "w", "state": "s", "workers": -1}, "workers"),
    ],
)
def test_a_field_that_is_wrong_is_named(kind: type[Job], fields: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^{named}: "):
        kind(**fields)


@pytest.mark.parametrize("text", ["{", "[1]", '{"training": "t"}', '{"training": "t", "model": "m", "color": 1}'])
def test_text_that_is_no_job_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="not a TrainJob"):
        TrainJob.from_json(text)


def test_a_job_runs_from_json_and_from_flags_and_says_why_it_fails(tmp_path: Path, capsys) -> None:
    fields = ["--tables", str(tmp_path), "--training", str(tmp_path / "t"), "--workspace", str(tmp_path)]
    assert command.main(["featurize", *fields]) == 1
    assert "featurize failed: no data set in" in capsys.readouterr().err
    assert command.main(["train", '{"training": "nowhere", "model": "m"}']) == 1
    assert "train failed: training: there is no nowhere; it is the folder of" in capsys.readouterr().err
    assert command.main(["solve", "{}"]) == 1
    assert "solve failed: job: not a SolveJob" in capsys.readouterr().err


@pytest.mark.parametrize("name", JOBS)
def test_a_job_names_an_input_that_is_not_there(name: str, tmp_path: Path) -> None:
    job = example(job_class(name))
    missing = dict.fromkeys(job.inputs, tmp_path / "nowhere")
    if missing:
        with pytest.raises(NotFound, match=rf"^{next(iter(missing))}: there is no .*nowhere; it is the "):
            run_here(dataclasses.replace(job, **missing))


def test_publishing_a_folder_without_a_price_names_the_file(tmp_path: Path, capsys) -> None:
    assert command.main(["publish", "--price", str(tmp_path), "--workspace", str(tmp_path)]) == 1
    assert f"publish failed: price: there is no {tmp_path / 'price.json'}" in capsys.readouterr().err


def test_the_jobs_of_the_hourly_resolve_need_no_torch() -> None:
    code = "import sys, operations.measure, operations.solve, operations.publish; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
