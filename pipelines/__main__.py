"""``python -m pipelines``: compile the pipelines, run one here, or hand one to a Kubeflow Pipelines backend."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

from operations.common.alarm import retrain_on_alarm
from pipelines.cluster import add_flags, take_flags
from pipelines.local import PATHS, PIPELINES, compile_pipelines, run
from shadowprice.command import Arguments, answer
from shadowprice.errors import InvalidInput

HOURLY = "0 2 * * * *"
CRONS = {"resolve": [HOURLY, "0 5-55/5 23 * * *"]}
"""Times of a pipeline's runs, every hour where it is not here. The default pacer ``closing`` wants a price every five
minutes in the window's last hour, which is this one where the window is a day from midnight UTC."""


def main() -> int:
    """Command line; returns the exit status."""
    parser = Arguments(prog="python -m pipelines", description="The pipelines, here or in a cluster.")
    commands = parser.add_subparsers(dest="command", required=True)
    compiling = commands.add_parser("compile", help="write <pipeline>.yaml of each")
    compiling.add_argument("folder", type=Path)
    running = commands.add_parser("run", help="run a pipeline in this process's environment")
    running.add_argument("--root", type=Path, help="where artifacts go; <workspace>/pipeline by default")
    running.add_argument("--image", default="", help="run every step in a container of it, by what DOCKER_HOST names")
    uploading = commands.add_parser("upload", help="upload a pipeline to a backend")
    scheduling = commands.add_parser("schedule", help="run a pipeline on a backend at times of a clock")
    scheduling.add_argument(
        "--cron",
        action="append",
        metavar="CRON",
        help=f"six fields, the first seconds; UTC; may be given again; {' and '.join(CRONS['resolve'])!r} for resolve, "
        f"{HOURLY!r} for others",
    )
    alarming = commands.add_parser("retrain-on-alarm", help="start a retrain where the watch alarms on the model")
    alarming.add_argument("--workspace", type=Path, required=True, help="folder with campaign, model and verdict")
    alarming.add_argument("--hours", type=float, default=24.0, help="least time between two such starts")
    alarming.add_argument("--host", default="", help="address of the Kubeflow Pipelines API; empty: run it here")
    alarming.add_argument("--name", default="shadowprice-retrain", help="schedule whose pipeline and parameters it has")
    for command in (running, uploading, scheduling):
        command.add_argument("pipeline", choices=PIPELINES)
    for command in (scheduling, alarming):
        command.add_argument("--experiment", default="shadowprice")
    for command in (running, scheduling, alarming):
        command.add_argument(
            "--set", action="append", default=[], type=_parameter, metavar="NAME=VALUE", help="of the pipeline"
        )
    for command in (uploading, scheduling):
        command.add_argument("--host", required=True, help="address of the Kubeflow Pipelines API")
        command.add_argument("--name", help="of the pipeline in the backend; shadowprice-<pipeline> by default")
    for command in (compiling, uploading, scheduling):
        add_flags(command)
    for command in (compiling, running, uploading, scheduling):
        command.add_argument("--json", action="store_true", help="print the result as JSON")
    given = parser.parse_args()
    take_flags(given)
    return answer("failed", partial(_do, given))


def _do(given: argparse.Namespace) -> int:
    if given.command == "compile":
        compile_pipelines(given.folder)
        if given.json:
            print(json.dumps({name: str(given.folder / f"{name}.yaml") for name in PIPELINES}))
        return 0
    parameters = dict(getattr(given, "set", []))
    if given.command == "run":
        if "workspace" not in parameters:
            raise InvalidInput("name the folder that outlives the run: --set workspace=FOLDER", field="workspace")
        root = given.root or Path(parameters["workspace"]) / "pipeline"
        with redirect_stdout(sys.stderr if given.json else sys.stdout):
            took = run(given.pipeline, root, parameters, image=given.image)
        if given.json:
            seconds = {step: each.seconds for step, each in took.items()}
            print(json.dumps({"pipeline": given.pipeline, "root": str(root), "seconds": seconds}))
        return 0

    from pipelines.backend import schedule, start_scheduled, upload

    if given.command == "retrain-on-alarm":
        if given.host and parameters:
            raise InvalidInput("the parameters of a backend's run are those of its schedule", field="set")

        def start() -> str:
            if given.host:
                return start_scheduled(given.host, given.name, experiment=given.experiment)
            run("retrain", given.workspace / "pipeline", parameters | {"workspace": str(given.workspace)})
            return "a run here"

        print(retrain_on_alarm(given.workspace, given.hours, start, blocking=not given.host))
        return 0

    name = given.name or f"shadowprice-{given.pipeline}"
    if given.command == "upload":
        pipeline_id, version_id = upload(given.host, given.pipeline, name)
        told: dict[str, Any] = {"pipeline_id": pipeline_id, "version_id": version_id}
    else:
        crons = given.cron or CRONS.get(given.pipeline, [HOURLY])
        told = {
            "recurring_run_ids": schedule(
                given.host,
                given.pipeline,
                name,
                crons=crons,
                experiment=given.experiment,
                parameters=parameters,
            )
        }
    if given.json:
        print(json.dumps(told))
    else:
        print(*(told.get("recurring_run_ids") or told.values()))
    return 0


def _parameter(text: str) -> tuple[str, Any]:
    """``name=value``; a value that is JSON but no text keeps its type, except that of a folder."""
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise argparse.ArgumentTypeError(f"{text!r}: write NAME=VALUE")
    try:
        found = json.loads(value)
    except ValueError:
        return name, value
    return name, value if name in PATHS and not isinstance(found, str) else found


if __name__ == "__main__":
    sys.exit(main())
