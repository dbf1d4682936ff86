"""The whole main job on one machine: learn, price, serve, replay a day, report.

python -m pipelines.quickstart --dataset world
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import uuid
from collections.abc import Mapping
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from operations.common.job import add_flags
from operations.evaluate import EvaluateJob
from operations.featurize import FeaturizeJob
from operations.prepare import PrepareJob
from operations.train import TrainJob
from pipelines.campaign_day import play, refused, warnings
from pipelines.days.instead import refusal
from pipelines.days.week import check_days, play_days
from pipelines.local import PipelineFailed, run
from shadowprice.errors import ShadowpriceError
from shadowprice.learning.propensity import check_weighting
from shadowprice.learning.recipes import Training
from shadowprice.reports.loop import loop_sentence
from shadowprice.reports.run import closing_lines


def quickstart(runs: Path, arguments: Mapping[str, Any], days: int = 1) -> Path:
    """Run everything and return the run's folder; ``<runs>/latest`` points to it when all went well.

    Args:
        runs: where runs are kept.
        arguments: of the train pipeline, without the workspace.
        days: more than one: also that many days of a population that drifts, with retrains.
    """
    check_days(days, arguments["dataset"])
    check_weighting(arguments["weighting"])
    Training(arguments["recipe"], arguments["curve_repair"], arguments["calibration"]).check()
    folder = new_folder(runs, f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{arguments['dataset']}")
    print(f"shadowprice quickstart: {arguments['dataset']} → {folder}", flush=True)
    started = time.perf_counter()
    data = str(Path(arguments["data"]).resolve()) if arguments["data"] else ""
    usual = _seconds_of(runs / "latest", arguments["dataset"])
    try:
        seconds = run("train", folder / "pipeline", {**arguments, "workspace": str(folder), "data": data}, usual=usual)
    except PipelineFailed as error:
        if (found := refused(folder)) is None:
            raise
        raise ShadowpriceError(refusal(folder, *found, arguments["seed"])) from error
    for warning in warnings(folder):
        print(f"  warning: {warning}; the day is simulated all the same", flush=True)
    seconds |= run("resolve", folder / "pipeline", {"workspace": str(folder)}, usual=usual)
    loop = play_days(folder, days, arguments, seconds) if days > 1 else []
    play(folder, seconds, started, seed=arguments["seed"], loop=loop)
    point_to(runs / "latest", folder.name)
    return folder


def _seconds_of(run: Path, dataset: str) -> dict[str, float]:
    """Step → seconds of an earlier run of the same data set; empty where there is none."""
    try:
        summary = json.loads((run / "summary.json").read_text())
        return dict(summary["seconds"]) if summary["dataset"] == dataset else {}
    except (OSError, ValueError, KeyError):
        return {}


def new_folder(runs: Path, name: str) -> Path:
    """Make a folder of that name in ``runs``, or of the name with a number where another run was first."""
    runs.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        folder = (runs / (name if number == 1 else f"{name}-{number}")).resolve()
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
            continue
        return folder


def point_to(link: Path, name: str) -> None:
    """Have the symbolic link ``link`` lead to ``name`` beside it, in one step however many runs do so at once."""
    draft = link.with_name(f".{link.name}-{uuid.uuid4().hex}")
    draft.symlink_to(name)
    os.replace(draft, link)


def main() -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="The whole main job on one machine.")
    parser.add_argument(
        "--dataset", default="world", choices=["world", "tables", "mapping", "o2o", "thornton", "promotion"]
    )
    parser.add_argument("--runs", default="runs", type=Path, help="where runs are kept")
    parser.add_argument("--days", default=1, type=int, help="days of a world that drifts, with retrains; 1: none")
    add_flags(parser, PrepareJob, "data", "options", "seed")
    add_flags(parser, FeaturizeJob, "weighting", "campaign_fields")
    add_flags(parser, TrainJob, "recipe", "epochs", "workers", "curve_repair", "calibration", epochs=400)
    # The day is simulated and few data sets have the rows to show it; the comparison is reported all the same.
    add_flags(parser, EvaluateJob, "beat_uniform", "limits", "override", beat_uniform=False)
    parser.add_argument("--json", action="store_true", help="print the result as JSON, and progress on stderr")
    given = vars(parser.parse_args())
    as_json = given.pop("json")
    try:
        with redirect_stdout(sys.stderr if as_json else sys.stdout):
            folder = quickstart(given.pop("runs"), given, days=given.pop("days"))
    except ShadowpriceError as error:
        print(f"quickstart failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("quickstart interrupted", file=sys.stderr)
        return 130
    summary = json.loads((folder / "summary.json").read_text())
    if as_json:
        print(json.dumps({"run": str(folder), "report": str(folder / "report.html"), "summary": summary}))
        return 0
    if "loop" in summary:
        print(loop_sentence(summary["loop"]))
    worth, rehearsal = closing_lines(summary)
    print(f"done: {worth}\n{rehearsal}\nreport: {folder}/report.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
