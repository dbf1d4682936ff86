"""A recipe judged by rolling origin on a data set of the user's own.

python -m pipelines.rolling --dataset tables --data FOLDER --first 2026-03-01 --last 2026-03-29
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from operations.common.job import add_flags
from operations.featurize import FeaturizeJob
from operations.featurize import run as featurize
from operations.train import TrainJob
from shadowprice.command import Arguments, answer
from shadowprice.datasets import load, names
from shadowprice.datasets.package import save_dataset
from shadowprice.evaluation.statistics.windows import WEEK
from shadowprice.learning.fit import fit_model
from shadowprice.learning.recipes import Training, choose_training
from shadowprice.learning.rolling import Cut, as_markdown, origins, roll
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.training import TrainingConfig
from shadowprice.storage import to_json


def rolling(
    dataset: str,
    data: str,
    *,
    first: datetime,
    last: datetime,
    every_days: float = WEEK,
    judge_days: float = WEEK,
    label_delay_days: float = 0.0,
    how: Training,
    epochs: int = 400,
    seed: int = 0,
) -> list[Cut]:
    """Load a data set, build its features, and judge a recipe as of every cut.

    Args:
        dataset: name of the data set; data: folder of its files, empty for those that are generated.
        first, last: dates of the first and the last cut.
        every_days: days between cuts; judge_days: days judged after each.
        label_delay_days: days until a label is known; 0 takes every label before a cut as known.
        how: recipe and what follows it, as of the training pipeline; empty fields for the data set's own.
        epochs: at most; seed: of everything random.
    """
    cuts = origins(first, last, every_days=every_days, judge_days=judge_days)
    chosen = choose_training(dataset, how)
    chosen.check()
    with tempfile.TemporaryDirectory(prefix="rolling-") as name:
        folder = Path(name)
        save_dataset(load(dataset, data or None, seed), folder / "data")
        training_folder = folder / "training"
        featurize(FeaturizeJob(tables=folder / "data", workspace=folder / "workspace", training=training_folder))
        training = TrainingSet.load(training_folder)
    return roll(
        training,
        cuts,
        lambda then: fit_model(then, chosen, TrainingConfig(epochs=epochs, seed=seed))[0],
        label_delay_days=label_delay_days,
    )


def main() -> int:
    """Command line; returns the exit status."""
    parser = Arguments(prog="python -m pipelines.rolling", description="Judge a recipe by rolling origin.")
    parser.add_argument("--dataset", default="tables", choices=names())
    parser.add_argument("--data", default="", help="folder of the files, for data sets that read files")
    parser.add_argument("--first", required=True, type=_date, help="first cut, such as 2026-03-01")
    parser.add_argument("--last", required=True, type=_date, help="last cut")
    parser.add_argument("--every-days", default=float(WEEK), type=float, help="days between cuts")
    parser.add_argument("--judge-days", default=float(WEEK), type=float, help="days judged after each cut")
    parser.add_argument("--label-delay-days", default=0.0, type=float, help="days until a label is known")
    add_flags(parser, TrainJob, "recipe", "curve_repair", "calibration", "epochs", "seed", epochs=400)
    parser.add_argument("--json", action="store_true", help="print the figures of each cut as JSON")
    given: dict[str, Any] = vars(parser.parse_args())
    show = to_json if given.pop("json") else as_markdown
    how = Training(given.pop("recipe"), given.pop("curve_repair"), given.pop("calibration"))

    def work() -> int:
        with redirect_stdout(sys.stderr):
            found = rolling(given.pop("dataset"), given.pop("data"), how=how, **given)
        print(show(found))
        return 0

    return answer("rolling failed", work)


def _date(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: write a date such as 2026-03-01") from None


if __name__ == "__main__":
    sys.exit(main())
