"""Estimate what personalizing is worth, by the rows of the trial that no model has learned from."""

from dataclasses import dataclass, replace
from pathlib import Path

from operations.common.job import Job, option, option_of, reads, write_figures, writes
from operations.train import TrainJob
from shadowprice.checks import require
from shadowprice.responses.inputs import about_in
from shadowprice.responses.training import TrainingConfig


@dataclass(frozen=True, kw_only=True)
class WorthJob(Job):
    """Value and cost of the policy from 0 to 200 % of the budget, against the lowest level and a flat mixture.

    Recipe, repair and calibration are those that the model was trained with: where rows are split by account, further
    models of the same kind are fitted on a part of the accounts.
    """

    model: Path = reads("folder of the model, which has not learned from the test split")
    training: Path = reads("folder of the training set that the model was fitted on")
    tables: Path = reads("folder of the prepared tables: campaign, split, and the truth where it is known")
    worth: Path = writes("JSON of the worth, or of the reason why it cannot be told")
    figures: Path | None = writes("file with the differences at the campaign's budget", optional=True)
    workspace: Path | None = option(None, "folder with the columns of accounts that conditions of the campaign read")
    recipe: str = option_of(TrainJob, "recipe")
    epochs: int = option(0, "of each further model, at most; they take 200 at most; 0: 200")
    seed: int = option_of(TrainJob, "seed")
    curve_repair: str = option_of(TrainJob, "curve_repair")
    calibration: str = option_of(TrainJob, "calibration")


def run(job: WorthJob) -> None:
    """Write the worth and its figures.

    Raises:
        InvalidInput: the training set is about sessions or segments.
    """
    # Imported here: compiling a pipeline reads the fields of this job, and needs none of what the job needs.
    from shadowprice.learning.recipes import Training
    from shadowprice.learning.worth.bundle import worth_of_bundle

    about = about_in(job.training)
    require(not about, "training", f"models of {about} have no budget to compare with a flat mixture")
    config = TrainingConfig(seed=job.seed)
    result = worth_of_bundle(
        job.model,
        job.training,
        job.tables,
        job.worth,
        Training(job.recipe, job.curve_repair, job.calibration),
        replace(config, epochs=job.epochs) if job.epochs else config,
        job.workspace,
    )
    figures: dict[str, float] = {}
    if result.worth is not None:
        now = result.worth.at(1.0)
        for name, estimate in (("over_lowest", now.lowest), ("over_flat", now.flat), ("cost", now.cost)):
            figures |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
    write_figures(job.figures, figures)
