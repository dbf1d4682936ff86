"""Train a model on a training set."""

from dataclasses import dataclass
from pathlib import Path

from operations.common.disk import require_space
from operations.common.job import Job, option, reads, write_figures, writes
from operations.common.workspace import CAMPAIGN, read_campaign
from shadowprice.errors import InvalidInput
from shadowprice.learning.bundle import read_meta
from shadowprice.learning.training_set import served_accounts
from shadowprice.responses.training import TrainingConfig

ACCOUNT_BYTES = 700
"""Vectors of an account: those of its request and its own."""


@dataclass(frozen=True, kw_only=True)
class TrainJob(Job):
    """Fit a recipe with early stop, calibrate it, repair its curves and write its bundle.

    The campaign's policy decides which recipes there are, and so does what the training set is about.
    """

    training: Path = reads("folder of the training set")
    model: Path = writes("folder of the model; a checkpoint in it is resumed")
    figures: Path | None = writes("file of the figures of training", optional=True)
    workspace: Path | None = option(None, "folder with the campaign, and the volume that pods of a Ray job mount too")
    recipe: str = option("", "name of a recipe, response layer or response model; the data set's own if empty")
    epochs: int = option(0, "at most; training stops early; 0 leaves it to the recipe")
    seed: int = option(0, "of initialization, dropout and batches")
    workers: int = option(1, "Ray workers; 0 trains without Ray, and 2 or more also embed a large graph")
    curve_repair: str = option("", "none, or of effect, pooled, by_level, monotone joined by '+'; empty likewise")
    calibration: str = option("", "validation, or rolling: by what past weeks agree on; empty likewise")
    precision: str = option("float32", "of the products of a gradient step: float32 or bfloat16")
    device: str = option("cpu", "of the gradient steps of a campaign: cpu, or cuda for a GPU")
    loss: str = option("", "loss of a model of funds in place of its own")
    amounts: str = option("", "loss of the amounts of responses in a joint network: ziln (if empty), esj or esj_mass")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.workers < 0:
            raise InvalidInput("must be 0 (this process) or a number of Ray workers", field="workers")
        if self.epochs < 0:
            raise InvalidInput("must be 0 (the recipe's own) or a number of epochs", field="epochs")


def run(job: TrainJob) -> None:
    """Train and write the model and the figures."""
    # Imported here: compiling a pipeline reads the fields of this job, and needs none of what the job needs.
    from shadowprice.learning.fit import fit_bundle
    from shadowprice.learning.recipes import Training

    require_space(job.model, ACCOUNT_BYTES * served_accounts(job.training), job.name)
    how = Training(job.recipe, job.curve_repair, job.calibration, job.loss, job.amounts)
    if job.workspace is not None and (job.workspace / CAMPAIGN).exists():
        how = how.of_policy(read_campaign(job.workspace).policy)
    config = TrainingConfig(seed=job.seed, precision=job.precision, device=job.device, epochs=job.epochs)
    fit_bundle(job.training, job.model, how, config, workers=job.workers)
    write_figures(job.figures, read_meta(job.model)["metrics"])
