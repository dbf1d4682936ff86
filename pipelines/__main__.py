"""``python -m pipelines``: compile the pipelines, run one here, or hand one to a Kubeflow Pipelines backend."""

import json
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from operations.common.alarm import retrain_on_alarm
from pipelines.cluster import NAMES, Cluster, take
from pipelines.connection import Connection
from pipelines.local import PATHS, PIPELINES, Pipeline, compile_pipelines, run
from shadowprice.command.options import AsJson, application, main_of, options_of, takes
from shadowprice.errors import InvalidInput

HOURLY = "0 2 * * * *"
CRONS = {"resolve": [HOURLY, "0 5-55/5 23 * * *"]}
"""Times of a pipeline's runs, every hour where it is not here. The default pacer ``closing`` wants a price every five
minutes in the window's last hour, which is this one where the window is a day from midnight UTC."""


Which = Annotated[Pipeline, typer.Argument(help="pipeline")]
Settings = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="parameter of the pipeline")]
Shared = Annotated[bool, typer.Option("--shared", help="upload it for all namespaces, not for one")]
Name = Annotated[str, typer.Option(help="of the pipeline in the backend; shadowprice-<pipeline> by default")]
Experiment = Annotated[str, typer.Option(help="experiment of the runs")]
CLUSTER = options_of(Cluster, **dict.fromkeys(NAMES, ""))
"""Names of a cluster's objects; those that are left out are of the environment."""
BACKEND = options_of(Connection)

app = application(no_args_is_help=True)


@app.command("compile")
@takes(CLUSTER)
def compile_here(folder: Path, as_json: AsJson = False, **cluster: str) -> None:
    """Write <pipeline>.yaml of each pipeline."""
    take(cluster)
    compile_pipelines(folder)
    if as_json:
        print(json.dumps({name: str(folder / f"{name}.yaml") for name in PIPELINES}))


@app.command("list")
def list_all(as_json: AsJson = False) -> None:
    """List the pipelines: inputs, and the jobs whose options they take."""
    from pipelines.local.listing import lines, listed

    print(json.dumps(listed()) if as_json else "\n".join(lines()))


@app.command("run")
@takes(BACKEND, CLUSTER)
def run_here(
    pipeline: Which,
    root: Annotated[Path | None, typer.Option(help="where artifacts go; <workspace>/pipeline by default")] = None,
    image: Annotated[str, typer.Option(help="run every step in a container of it, by what DOCKER_HOST names")] = "",
    name: Name = "",
    experiment: Experiment = "shadowprice",
    shared: Shared = False,
    settings: Settings = None,
    as_json: AsJson = False,
    **given: str,
) -> None:
    """Run a pipeline once: on the backend of --host, or without it in this process's environment."""
    parameters, to = dict(map(_parameter, settings or ())), _connection(given)
    if to.host:
        from pipelines.backend import run_there

        called = name or f"shadowprice-{pipeline}"
        started = run_there(to, pipeline, called, experiment=experiment, parameters=parameters, shared=shared)
        print(json.dumps({"run_id": started}) if as_json else started)
        return
    if "workspace" not in parameters:
        raise InvalidInput("name the folder that outlives the run: --set workspace=FOLDER", field="workspace")
    root = root or Path(parameters["workspace"]) / "pipeline"
    with redirect_stdout(sys.stderr if as_json else sys.stdout):
        took = run(pipeline, root, parameters, image=image)
    if as_json:
        seconds = {step: took_step.seconds for step, took_step in took.items()}
        print(json.dumps({"pipeline": pipeline, "root": str(root), "seconds": seconds}))


@app.command("upload")
@takes(BACKEND, CLUSTER)
def upload_one(pipeline: Which, name: Name = "", shared: Shared = False, as_json: AsJson = False, **given: str) -> None:
    """Upload a pipeline to a backend."""
    from pipelines.backend import upload

    pipeline_id, version_id = upload(_connection(given), pipeline, name or f"shadowprice-{pipeline}", shared=shared)
    ids = {"pipeline_id": pipeline_id, "version_id": version_id}
    print(json.dumps(ids) if as_json else " ".join(ids.values()))


@app.command("schedule")
@takes(BACKEND, CLUSTER)
def schedule_one(
    pipeline: Which,
    name: Name = "",
    cron: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CRON",
            help=f"six fields, the first seconds; UTC; may be given again; {' and '.join(CRONS['resolve'])!r} for "
            f"resolve, {HOURLY!r} for others",
        ),
    ] = None,
    experiment: Experiment = "shadowprice",
    shared: Shared = False,
    settings: Settings = None,
    as_json: AsJson = False,
    **given: str,
) -> None:
    """Run a pipeline on a backend at times of a clock."""
    from pipelines.backend import schedule

    runs = schedule(
        _connection(given),
        pipeline,
        name or f"shadowprice-{pipeline}",
        crons=cron or CRONS.get(pipeline, [HOURLY]),
        experiment=experiment,
        parameters=dict(map(_parameter, settings or ())),
        shared=shared,
    )
    print(json.dumps({"recurring_run_ids": runs}) if as_json else " ".join(runs))


@app.command("unschedule")
@takes(BACKEND)
def unschedule_all(
    names: Annotated[list[str], typer.Argument(metavar="NAME …", help="of schedules, such as shadowprice-resolve")],
    experiment: Experiment = "shadowprice",
    as_json: AsJson = False,
    **given: str,
) -> None:
    """Delete schedules from a backend by their names; names without a schedule are no fault."""
    from pipelines.backend import unschedule

    gone = [run_id for name in names for run_id in unschedule(_connection(given), name, experiment=experiment)]
    line = f"deleted {' '.join(gone)}" if gone else "there is no such schedule"
    print(json.dumps({"recurring_run_ids": gone}) if as_json else line)


@app.command("retrain-on-alarm")
@takes(BACKEND)
def retrain(
    workspace: Annotated[Path, typer.Option(help="folder with campaign, model and verdict")],
    hours: Annotated[float, typer.Option(help="least time between two such starts")] = 24.0,
    name: Annotated[str, typer.Option(help="schedule whose pipeline and parameters it has")] = "shadowprice-retrain",
    experiment: Experiment = "shadowprice",
    settings: Settings = None,
    **given: str,
) -> None:
    """Start a retrain where the watch alarms on the model: on the backend of --host, or without it here."""
    parameters, to = dict(map(_parameter, settings or ())), _connection(given)
    if to.host and parameters:
        raise InvalidInput("the parameters of a backend's run are those of its schedule", field="set")

    def start() -> str:
        if to.host:
            from pipelines.backend import start_scheduled

            return start_scheduled(to, name, experiment=experiment)
        run("retrain", workspace / "pipeline", parameters | {"workspace": str(workspace)})
        return "a run here"

    print(retrain_on_alarm(workspace, hours, start, blocking=not to.host))


main = main_of(app, "python -m pipelines", failure="failed")


def _connection(given: Mapping[str, str]) -> Connection:
    """Return the connection that options name, and leave the names of a cluster where compiling reads them."""
    names = {field.name for field in fields(Connection)}
    take({name: value for name, value in given.items() if name not in names})
    return Connection(**{name: value for name, value in given.items() if name in names})


def _parameter(text: str) -> tuple[str, Any]:
    """``name=value``; a value that is JSON but no text keeps its type, except that of a folder."""
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise typer.BadParameter(f"{text!r}: write NAME=VALUE")
    try:
        parsed = json.loads(value)
    except ValueError:
        return name, value
    return name, value if name in PATHS and not isinstance(parsed, str) else parsed


if __name__ == "__main__":
    sys.exit(main())
