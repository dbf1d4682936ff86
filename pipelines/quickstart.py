"""The whole main job on one machine: learn, price, serve, replay a day, report. Of a delivery: learn, plan, report.

python -m pipelines.quickstart --dataset world
"""

import json
import sys
import time
from collections.abc import Mapping
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from operations.common.disk import require_space
from operations.evaluate import EvaluateJob
from operations.featurize import FeaturizeJob
from operations.prepare import PrepareJob
from operations.train import TrainJob
from pipelines.campaign_day import play, refused, show_plan, warnings
from pipelines.days.instead import refusal
from pipelines.days.week import check_days, play_days
from pipelines.local import PipelineFailed
from pipelines.local import run as run_pipeline
from pipelines.parameters import PARAMETERS
from pipelines.run_folder import RunFolder, interrupted, point_to, recorded
from shadowprice.command.failures import INTERRUPTED
from shadowprice.command.options import application, given_in, main_of, option, options_of, takes
from shadowprice.currency import Currency
from shadowprice.datasets.inputs import accounts_in, input_files, is_delivery
from shadowprice.errors import Conflict
from shadowprice.files import write_whole
from shadowprice.learning.recipes import Training
from shadowprice.pacing.replay.loop import LoopDay
from shadowprice.reports.loop import loop_sentence
from shadowprice.reports.run import closing_lines
from shadowprice.storage import from_json, to_json

DataSet = Literal["world", "tables", "mapping", "o2o", "thornton", "promotion", "vouchers"]
ACCOUNT_BYTES, DATA_TIMES, RUN_BYTES = 2000, 5, 20_000_000
"""Need of a run on the disk: for each account, for each byte of the files, and in any case."""
DAYS = "days"
"""Argument of a run, and its step and file, that the train pipeline does not have."""


def quickstart(runs: Path, arguments: Mapping[str, Any], *, resume: Path | None = None) -> Path:
    """Run everything and return the run's folder; ``<runs>/latest`` points to it when all went well.

    Args:
        runs: where runs are kept.
        arguments: of the train pipeline, without the workspace, and ``days``: more than one: also that many days of a
            population that drifts, with retrains.
        resume: folder of an interrupted run to go on with: steps that it finished are not done again.

    Nothing is left of a run whose arguments or data are refused.
    """
    check(arguments)
    if resume is None:
        require_space(runs, space_of(arguments), "the run")
        run = RunFolder.begin(runs, arguments)
    else:
        run = RunFolder.resume(resume, arguments)
    print(f"shadowprice quickstart: {arguments['dataset']} → {run.folder}", flush=True)
    started = time.perf_counter()
    usual = _seconds_of(runs / "latest", arguments["dataset"])
    do = partial(run_pipeline, root=run.folder / "pipeline", usual=usual, resume=run.resumed)
    workspace, pipeline = {"workspace": str(run.folder)}, _pipeline(arguments)
    own = {name: value for name, value in run.arguments.items() if name != DAYS}
    try:
        run.took.update(do(pipeline, arguments=own | workspace))
    except PipelineFailed as error:
        if error.step == "prepare" and error.cause is not None and not run.resumed:
            run.remove()
            raise error.cause from error
        if (refused_run := refused(run.folder)) is None:
            raise
        reason = refusal(run.folder, *refused_run, int(run.arguments["seed"]))
        run.end()
        raise Conflict(reason) from error
    if pipeline == "delivery":
        show_plan(run, started)
        run.end()
        point_to(runs / "latest", run.folder.name)
        return run.folder
    for warning in warnings(run.folder):
        print(f"  warning: {warning}; the day is simulated all the same", flush=True)
    if pipeline != "vouchers":  # its last step is the price
        run.took.update(do("resolve", arguments=workspace))
    play(run, started, loop=_days(run) if run.arguments[DAYS] > 1 else ())
    run.end()
    point_to(runs / "latest", run.folder.name)
    return run.folder


def space_of(arguments: Mapping[str, Any]) -> float:
    """Approximate number of bytes that a run writes."""
    source_of = (arguments["dataset"], arguments["data"], arguments["options"])
    files = sum(file.stat().st_size for file in input_files(*source_of))
    return ACCOUNT_BYTES * accounts_in(*source_of) + DATA_TIMES * files + RUN_BYTES


def check(arguments: Mapping[str, Any]) -> None:
    """Refuse arguments of a run that one of its jobs would refuse."""
    check_days(arguments[DAYS], arguments["dataset"])
    about = "sessions" if arguments["dataset"] == "vouchers" else ""
    Training(arguments["recipe"], arguments["curve_repair"], arguments["calibration"]).check(about)
    nowhere = Path("nowhere")
    for job in (PrepareJob, FeaturizeJob, TrainJob, EvaluateJob):
        fields = job.__dataclass_fields__
        places = {
            name: nowhere for name, field in fields.items() if "direction" in field.metadata or name == "workspace"
        }
        job(**places | {name: value for name, value in arguments.items() if name in fields})


def _pipeline(arguments: Mapping[str, Any]) -> str:
    dataset = arguments["dataset"]
    return "vouchers" if dataset == "vouchers" else "delivery" if is_delivery(dataset, arguments["data"]) else "train"


def _days(run: RunFolder) -> list[LoopDay]:
    """Days with retrains; they are one step."""

    def work(folder: Path) -> None:
        played = play_days(run.folder, run.arguments[DAYS], run.arguments)
        write_whole(folder / f"{DAYS}.jsonl", "\n".join(json.dumps(json.loads(to_json(day))) for day in played))

    file = run.step(DAYS, {DAYS: run.arguments[DAYS]}, work) / f"{DAYS}.jsonl"
    return [from_json(LoopDay, line) for line in file.read_text().splitlines()]


def _seconds_of(run: Path, dataset: str) -> dict[str, float]:
    """Step → seconds of an earlier run of the same data set; empty where there is none."""
    try:
        summary = json.loads((run / "summary.json").read_text())
        return dict(summary["seconds"]) if summary["dataset"] == dataset else {}
    except (OSError, ValueError, KeyError):
        return {}


OPTIONS = [
    option("runs", Path, "where runs are kept", Path("runs")),
    option("days", int, "days of a world that drifts, with retrains; 1: none", 1),
    *options_of(PrepareJob, "options", "seed"),
    *options_of(FeaturizeJob, "weighting", "campaign_fields"),
    *options_of(TrainJob, "recipe", "epochs", "workers", "curve_repair", "calibration", epochs=400),
    # The day is simulated and few data sets have the rows to show it; the comparison is reported all the same.
    *options_of(EvaluateJob, "beat_uniform", "limits", "override", beat_uniform=False),
    option("resume", bool, "go on with the newest interrupted run; needs no other option", False, "--resume"),
    option("as_json", bool, "print the result as JSON, and progress on stderr", False, "--json"),
]
"""Options of a run, whatever its data set."""


@takes(options_of(PrepareJob, "data"), OPTIONS)
def command(
    context: typer.Context,
    dataset: Annotated[DataSet, typer.Option(help="data set of the run")] = "world",
    **given: Any,
) -> int:
    """Run the whole main job on one machine."""
    return start(context, given | {"dataset": dataset}, {})


def start(context: typer.Context, given: dict[str, Any], named: Mapping[str, str]) -> int:
    """Run as the command line says, and return the exit status.

    Args:
        context: of the command.
        given: values of its options; a resumed run keeps those that are not given again.
        named: further arguments of the run, such as its data set.
    """
    runs, as_json, resumed = given.pop("runs"), given.pop("as_json"), given.pop("resume")
    resume = interrupted(runs) if resumed else None
    if resume is not None:
        given = {**recorded(resume)["arguments"], **{name: given[name] for name in given_in(context) & given.keys()}}
    given |= named
    given["data"] = str(Path(given["data"]).resolve()) if given["data"] else ""
    if resume is None:
        own = PARAMETERS[_pipeline(given)].jobs["train"]
        given |= {name: value for name, value in own.items() if name not in given_in(context)}
    with redirect_stdout(sys.stderr if as_json else sys.stdout):
        try:
            folder = quickstart(runs, given, resume=resume)
        except KeyboardInterrupt:
            print("interrupted; --resume goes on", file=sys.stderr)
            return INTERRUPTED
    summary = json.loads((folder / "summary.json").read_text())
    if as_json:
        print(json.dumps({"run": str(folder), "report": str(folder / "report.html"), "summary": summary}))
        return 0
    if "loop" in summary:
        print(loop_sentence(summary["loop"], Currency.of(summary["currency"])))
    worth, rehearsal = closing_lines(summary)
    print(f"done: {worth}\n{rehearsal}\nsummary: {folder}/summary.html\nreport: {folder}/report.html")
    return 0


app = application(command)
main = main_of(app, "shadowprice quickstart", failure="quickstart failed")

if __name__ == "__main__":
    sys.exit(main())
