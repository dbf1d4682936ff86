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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipelines.campaign_day import play, warnings, why_not
from pipelines.local import compile_all, run
from shadowprice.errors import ShadowpriceError
from shadowprice.learning.propensity import check_weighting
from shadowprice.learning.recipes import Training
from shadowprice.reports.run import gain_sentence


def quickstart(
    dataset: str,
    data: str,
    runs: Path,
    *,
    options: dict[str, Any],
    seed: int = 0,
    recipe: str = "",
    epochs: int = 400,
    workers: int = 1,
    curve_repair: str = "",
    calibration: str = "",
    weighting: str = "none",
    beat_uniform: bool = False,
) -> Path:
    """Run everything and return the run's folder; ``<runs>/latest`` points to it when all went well.

    Args:
        dataset: world, tables, o2o, thornton or promotion.
        data: folder of the files, for data sets that read files.
        runs: where runs are kept.
        options: what the data set takes besides, such as a split by time.
        seed: of everything random.
        recipe: what to train; empty for the data set's own.
        epochs: at most.
        workers: Ray workers of the training step; 0 trains without Ray.
        curve_repair: what is done to the curves after training, such as ``effect+monotone``; empty for the data set's
            own, or none where a recipe is named.
        calibration: ``validation`` or ``rolling``; empty likewise.
        weighting: none, known or fitted: how rows are weighted where incentives were not assigned at random.
        beat_uniform: whether the model must be shown to beat uniform dosing at the campaign's budget. Off, because the
            day is simulated and few data sets have the rows to show it; the comparison is reported.
    """
    check_weighting(weighting)
    Training(recipe, curve_repair, calibration).check()
    folder = new_folder(runs, f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{dataset}")
    print(f"shadowprice quickstart: {dataset} → {folder}", flush=True)
    started = time.perf_counter()
    arguments = {
        "workspace": str(folder),
        "dataset": dataset,
        "data": str(Path(data).resolve()) if data else "",
        "options": options,
        "recipe": recipe,
        "epochs": epochs,
        "seed": seed,
        "workers": workers,
        "curve_repair": curve_repair,
        "calibration": calibration,
        "weighting": weighting,
        "beat_uniform": beat_uniform,
    }
    compile_all(folder / "pipeline")
    seconds = run("train", folder / "pipeline", arguments)
    if not (folder / "model").exists():
        raise ShadowpriceError(f"the model did not pass the gate and is not served: {'; '.join(why_not(folder))}")
    for warning in warnings(folder):
        print(f"  warning: {warning}; the day is simulated all the same", flush=True)
    seconds |= run("resolve", folder / "pipeline", {"workspace": str(folder)})
    play(folder, seconds, started, seed=seed)
    point_to(runs / "latest", folder.name)
    return folder


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
    parser.add_argument("--dataset", default="world", choices=["world", "tables", "o2o", "thornton", "promotion"])
    parser.add_argument("--data", default="", help="folder of the files, for data sets that read files")
    parser.add_argument("--options", default={}, type=json.loads, help="of the data set, as JSON")
    parser.add_argument("--runs", default="runs", type=Path, help="where runs are kept")
    parser.add_argument("--seed", default=0, type=int)
    parser.add_argument(
        "--recipe", default="", help="or a response layer or response model; the data set's own if empty"
    )
    parser.add_argument("--epochs", default=400, type=int, help="at most; training stops early")
    parser.add_argument("--workers", default=1, type=int, help="Ray workers; 0 trains without Ray")
    parser.add_argument("--curve-repair", default="", help="such as effect+monotone")
    parser.add_argument("--calibration", default="", help="validation or rolling")
    parser.add_argument(
        "--weighting",
        default="none",
        choices=["none", "known", "fitted"],
        help="propensities whose inverse weights rows",
    )
    parser.add_argument(
        "--beat-uniform",
        default=False,
        action=argparse.BooleanOptionalAction,
        help="refuse a model that is not shown to beat uniform dosing at the campaign's budget",
    )
    given = vars(parser.parse_args())
    try:
        folder = quickstart(given.pop("dataset"), given.pop("data"), given.pop("runs"), **given)
    except ShadowpriceError as error:
        print(f"quickstart failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("quickstart interrupted", file=sys.stderr)
        return 130
    pacing = json.loads((folder / "summary.json").read_text())["pacing"]
    print(
        f"done: spent {pacing['spend']} of {pacing['allowance']:.0f} minor units in {pacing['hours']} hours, "
        f"{gain_sentence(pacing)} (simulated outcomes)\n"
        f"report: {folder}/report.html"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
