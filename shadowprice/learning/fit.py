"""The training step: fit a recipe, calibrate it, repair its curves, write its bundle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from shadowprice.campaign import FLAT, Side
from shadowprice.checks import require
from shadowprice.errors import InvalidInput
from shadowprice.learning.bundle import write_bundle
from shadowprice.learning.calibrate import calibrate, calibrate_by_weeks, past_weeks
from shadowprice.learning.distributed import RAY, ray_workers
from shadowprice.learning.recipes import VALIDATION, Separate, Training, choose_training, flat
from shadowprice.learning.recipes import recipe as recipe_of
from shadowprice.learning.repair import check_repair, repair
from shadowprice.learning.train import fit_separate, held_out_loss, train
from shadowprice.learning.training_set import LEARNT_ACCOUNTS, TrainingSet
from shadowprice.on_ray.parts import on_actors
from shadowprice.responses.label_rates import label_rates
from shadowprice.responses.registry import model_class
from shadowprice.responses.repair.model import RepairSteps
from shadowprice.responses.separate import SeparateModels
from shadowprice.responses.sided import SidedModel
from shadowprice.responses.training import FitResult, TrainingConfig


def fit_bundle(
    training: Path, out: Path, how: Training, config: TrainingConfig, *, workers: int = 1
) -> tuple[str, FitResult]:
    """Train, calibrate, repair and export; returns the model's version and what training did.

    Args:
        training: folder of a saved :class:`TrainingSet`.
        out: where the bundle goes; a checkpoint in it is resumed.
        how: recipe and what follows it; empty fields for the data set's own, as
            :func:`~shadowprice.learning.recipes.choose_training` says.
        config: of the training loop.
        workers: Ray workers; 0 trains in this process, and so do models that take no gradient steps, such as trees.
    """
    how.check()
    require(workers >= 0, "workers", "must be 0 (this process) or a number of Ray workers")
    data = TrainingSet.load(training, LEARNT_ACCOUNTS)
    how = choose_training(data.dataset, how)
    check_repair(RepairSteps.named(how.curve_repair), data)
    if how.recipe == FLAT:
        # As on the page of evidence every row counts: the means by level need no held-out rows.
        data = replace(data, rows={side: frame.assign(split="train") for side, frame in data.rows.items()})
    config = replace(config, stamp=f"{how.recipe} {data.digest()}")
    spec = recipe_of(how.recipe, data)
    steps = not isinstance(spec, Separate) or any(model_class(each).by_gradient for each in spec.models.values())
    metrics = ("validation_loss", "epochs", "best_epoch")
    with (
        ray_workers(out, workers=workers if steps else 0, label=how.recipe, epochs=config.epochs, device=config.device),
        on_actors(workers, (out / RAY).resolve()),
    ):
        model, result, corrections = fit_model(data, how, config, checkpoint=out / "checkpoint")
        rates = label_rates(data.part("train"), data.levels)
        # Embeddings of all accounts take the memory of the labelled rows, which are not read again.
        data = replace(data, rows={})
        version = write_bundle(
            model,
            data,
            out,
            recipe=how.recipe,
            corrections=corrections,
            metrics={name: getattr(result, name) for name in metrics},
            label_rates=rates,
        )
    return version, result


def fit_model(
    data: TrainingSet, how: Training, config: TrainingConfig, *, checkpoint: Path | None = None
) -> tuple[SidedModel, FitResult, dict[Side, float]]:
    """Train in this process, calibrate and repair; returns the model, what training did, and the corrections.

    The flat policy is fitted on train and validation together. With ``rolling`` the model is trained on both too, and
    the validation loss is the mean over the past weeks that calibration predicts. Arguments are those of
    :func:`fit_bundle`.
    """
    how.check()
    if how.recipe == FLAT:
        rows = whole(data)
        found = fit_separate(rows, flat(data), config)
        return found, FitResult(0, 0, held_out_loss(found, rows, "train"), []), dict.fromkeys(data.rows, 0.0)
    if how.calibration == VALIDATION:
        model, result = train(data, how.recipe, config, checkpoint=checkpoint)
        corrections = calibrate(model, data)
        return repair(model, data, how.curve_repair), result, corrections
    spec = recipe_of(how.recipe, data)
    if not isinstance(spec, Separate):
        raise _no_rolling(how.recipe)
    few = "needs more than two weeks of labelled rows before the test; use 'validation'"
    require(past_weeks(data), "calibration", few)
    losses = []

    def of_week(then: TrainingSet) -> SeparateModels:
        found = fit_separate(whole(then), spec, config)
        losses.append(held_out_loss(found, then, "test"))
        return found

    separate = fit_separate(whole(data), spec, config)
    corrections = calibrate_by_weeks(separate, data, of_week)
    loss = sum(losses) / len(losses)
    return repair(separate, data, how.curve_repair), FitResult(0, 0, loss, []), corrections


def whole(data: TrainingSet) -> TrainingSet:
    """Return the training set with its validation rows among those to train on."""
    rows = {
        side: frame.assign(split=frame["split"].replace("validation", "train")) for side, frame in data.rows.items()
    }
    return replace(data, rows=rows)


def _no_rolling(recipe: str) -> InvalidInput:
    return InvalidInput(
        f"'rolling' trains on the validation rows too, by which {recipe!r} stops; use 'validation', or a response "
        "model such as gbdt",
        field="calibration",
    )
