"""The training step: fit a recipe, calibrate it, write its bundle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from shadowprice.errors import InvalidInput
from shadowprice.learning.bundle import write_bundle
from shadowprice.learning.calibrate import calibrate
from shadowprice.learning.distributed import train_with_ray
from shadowprice.learning.recipes import Separate
from shadowprice.learning.recipes import recipe as recipe_of
from shadowprice.learning.repair import DEFAULT, repair
from shadowprice.learning.train import train
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.repaired import RepairSteps
from shadowprice.responses.sided import SidedModel
from shadowprice.responses.training import FitResult, TrainingConfig


def fit_bundle(
    training: Path,
    out: Path,
    recipe: str,
    config: TrainingConfig,
    *,
    workers: int = 1,
    curve_repair: str = DEFAULT,
) -> tuple[str, FitResult]:
    """Train, calibrate, repair and export; returns the model's version and what training did.

    Args:
        training: folder of a saved :class:`TrainingSet`.
        out: where the bundle goes; a checkpoint in it is resumed.
        recipe: one of :func:`~shadowprice.learning.recipes.recipe_names`.
        config: of the training loop.
        workers: Ray workers; 0 trains in this process, and so do separate models, which have a loop of their own.
        curve_repair: what is done to the curves, see :func:`~shadowprice.learning.repair.repair`.
    """
    RepairSteps.named(curve_repair)
    if workers < 0:
        raise InvalidInput("must be 0 (this process) or a number of Ray workers", field="workers")
    data = TrainingSet.load(training)
    config = replace(config, stamp=f"{recipe} {data.digest()}")
    model: SidedModel
    if workers and not isinstance(recipe_of(recipe, data), Separate):
        model, result = train_with_ray(training, recipe, config, out, workers=workers)
    else:
        model, result = train(data, recipe, config, checkpoint=out / "checkpoint")
    corrections = calibrate(model, data)
    model = repair(model, data, curve_repair)
    version = write_bundle(
        model,
        data,
        out,
        recipe=recipe,
        corrections=corrections,
        metrics={"validation_loss": result.validation_loss, "epochs": result.epochs, "best_epoch": result.best_epoch},
    )
    return version, result
