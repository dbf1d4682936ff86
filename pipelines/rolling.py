"""A recipe judged by rolling origin on a data set of the user's own.

python -m pipelines.rolling --dataset tables --data FOLDER --first 2026-03-01 --last 2026-03-29
"""

import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from operations.featurize import FeaturizeJob
from operations.featurize import run as featurize
from operations.prepare import PrepareJob
from operations.train import TrainJob
from shadowprice.command.options import AsJson, application, main_of, option, options_of, takes
from shadowprice.datasets import load, names
from shadowprice.datasets.package import save_dataset
from shadowprice.evaluation.statistics.windows import WEEK
from shadowprice.learning.fit import fit_model
from shadowprice.learning.recipes import Training, choose_training
from shadowprice.learning.rolling import Cut, Origin, as_markdown, origins, roll
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.training import TrainingConfig
from shadowprice.storage import to_json


def rolling(
    dataset: str,
    data: str,
    cuts: Sequence[Origin],
    how: Training,
    *,
    label_delay_days: float = 0.0,
    epochs: int = 400,
    seed: int = 0,
) -> list[Cut]:
    """Load a data set, build its features, and judge a recipe as of every cut.

    Args:
        dataset: name of the data set; data: folder of its files, empty for those that are generated.
        cuts: when it is trained, and until when it is judged.
        how: recipe and what follows it, as of the training pipeline; empty fields for the data set's own.
        label_delay_days: days until a label is known; 0 takes every label before a cut as known.
        epochs: at most; seed: of everything random.
    """
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


def _date(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        raise typer.BadParameter(f"{text!r}: write a date such as 2026-03-01") from None


@takes(
    [option("dataset", Literal[tuple(names())], "data set", "tables")],
    options_of(PrepareJob, "data"),
    options_of(TrainJob, "recipe", "curve_repair", "calibration", "epochs", "seed", epochs=400),
)
def command(
    first: Annotated[datetime, typer.Option(parser=_date, metavar="DATE", help="first cut, such as 2026-03-01")],
    last: Annotated[datetime, typer.Option(parser=_date, metavar="DATE", help="last cut")],
    every_days: Annotated[float, typer.Option(help="days between cuts")] = WEEK,
    judge_days: Annotated[float, typer.Option(help="days judged after each cut")] = WEEK,
    label_delay_days: Annotated[float, typer.Option(help="days until a label is known")] = 0.0,
    as_json: AsJson = False,
    **given: Any,
) -> None:
    """Judge a recipe by rolling origin."""
    how = Training(given.pop("recipe"), given.pop("curve_repair"), given.pop("calibration"))
    cuts = origins(first, last, every_days=every_days, judge_days=judge_days)
    with redirect_stdout(sys.stderr):
        evaluation = rolling(
            given.pop("dataset"), given.pop("data"), cuts, how, label_delay_days=label_delay_days, **given
        )
    print(to_json(evaluation) if as_json else as_markdown(evaluation))


app = application(command)
main = main_of(app, "shadowprice rolling", failure="rolling failed")

if __name__ == "__main__":
    sys.exit(main())
