"""The training step: fit a recipe, calibrate it, repair its curves, write its bundle."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from shadowprice.campaign import FLAT, Side
from shadowprice.checks import require
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.clusters import row_clusters
from shadowprice.learning.amounts import fitted_amounts
from shadowprice.learning.bundle import OfSides, write_bundle
from shadowprice.learning.calibrate import calibrate, calibrate_by_weeks, past_weeks
from shadowprice.learning.distributed import RAY, ray_workers
from shadowprice.learning.guards import fitted_guards
from shadowprice.learning.recipes import ROLLING, SUBJECTS, VALIDATION, Separate, Training, choose_training, flat
from shadowprice.learning.recipes import recipe as recipe_of
from shadowprice.learning.train import configured, fit_separate, held_out_loss, train
from shadowprice.learning.training_set import LEARNT_ACCOUNTS, TrainingSet
from shadowprice.on_ray.parts import on_actors
from shadowprice.responses.base import labels
from shadowprice.responses.inputs import about_in
from shadowprice.responses.posterior import CurvePosterior
from shadowprice.responses.registry import model_class
from shadowprice.responses.repair.model import NONE, RepairedModel, RepairSteps, SideRepair
from shadowprice.responses.separate import SeparateModels
from shadowprice.responses.sided import SidedModel
from shadowprice.responses.training import FitResult, TrainingConfig
from shadowprice.responses.weights import effective_rows, row_weights


def label_rates(
    rows: Mapping[Side, pd.DataFrame], levels: Mapping[Side, tuple[int, ...]]
) -> dict[Side, list[list[float]]]:
    """Return side → for each level its effective rows and its weighted mean response.

    The weights are those of the loss (:func:`shadowprice.responses.weights.row_weights`), so the mean stands for all
    accounts where propensities are known. A level without rows has 0 rows and mean 0.
    """
    rates: dict[Side, list[list[float]]] = {}
    for side, frame in rows.items():
        level, response = labels(frame)
        weight = row_weights(frame, len(levels[side])) if len(frame) else np.ones(0)
        rates[side] = []
        for at in range(len(levels[side])):
            own = level == at
            total = float(weight[own].sum())
            mean = float(weight[own] @ response[own]) / total if total > 0 else 0.0
            rates[side].append([effective_rows(weight[own]), mean])
    return rates


def repair(model: SidedModel, data: TrainingSet, name: str) -> SidedModel:
    """Return the model with its curves repaired by the steps of ``name``, or the model itself for ``none``.

    Args:
        model: trained, and calibrated if it is to be.
        data: its training set. The repair is fitted on the validation split, the latest labeled rows that the model
            was not fitted on; ``effect`` reads the training split too. Sessions have no such split: their repair is
            fitted on the test split (decision record 90).
        name: ``none``, or of effect, pooled, by_level, monotone, joined by ``+``.
    """
    steps = RepairSteps.named(name)
    check_repair(steps, data)
    if not steps:
        return model
    seen, held_out = data.part("train"), data.part(SUBJECTS[data.inputs.about].held_out)
    repairs: dict[Side, SideRepair] = {}
    for side in data.rows:

        def curves_of(frame: pd.DataFrame, side: Side = side) -> Curves:
            return model.curves(data.inputs, {side: frame})[side]

        confounders = data.confounders.get(side, ())
        repairs[side] = SideRepair.fit(steps, curves_of, held_out[side], seen[side], confounders, side)
    return RepairedModel(model, repairs)


def check_repair(steps: RepairSteps, data: TrainingSet) -> None:
    """Refuse steps that read an order of levels where a side has none."""
    reason = f"effect and monotone read an order of levels, and those of {', '.join(data.unordered)}s have none"
    require(not (data.unordered and (steps.effect or steps.project)), "curve_repair", reason)


def fit_bundle(
    training: Path, out: Path, how: Training, config: TrainingConfig, *, workers: int = 1
) -> tuple[str, FitResult]:
    """Train, calibrate, repair and export; return the model's version and the figures of training.

    Args:
        training: folder of a saved :class:`TrainingSet`.
        out: where the bundle goes; a checkpoint in it is resumed.
        how: recipe and what follows it; empty fields for the data set's own, as
            :func:`~shadowprice.learning.recipes.choose_training` says.
        config: of the training loop; with 0 epochs as many as the recipe takes by default.
        workers: Ray workers; 0 trains in this process, and so do models that take no gradient steps, such as trees.
    """
    RepairSteps.named(how.curve_repair or NONE)  # a wrong name is refused before anything is read
    about = about_in(training)
    how.check(about)
    require(workers >= 0, "workers", "must be 0 (this process) or a number of Ray workers")
    data = TrainingSet.load(training, LEARNT_ACCOUNTS)
    how = choose_training(data.dataset, how, about)
    check_repair(RepairSteps.named(how.curve_repair), data)
    if how.recipe == FLAT:
        # As on the page of evidence every row counts: the means by level need no held-out rows.
        data = replace(data, rows={side: frame.assign(split="train") for side, frame in data.rows.items()})
    spec = recipe_of(how.recipe, data, how.amounts)
    digest = data.digest()
    config = configured(spec, replace(config, stamp=" ".join([how.recipe, how.loss, how.amounts, digest])))
    steps = not isinstance(spec, Separate) or any(model_class(name).by_gradient for name in spec.models.values())
    with (
        ray_workers(out, workers=workers if steps else 0, label=how.recipe, epochs=config.epochs, device=config.device),
        on_actors(workers, (out / RAY).resolve()),
    ):
        model, result, corrections = fit_model(data, how, config, checkpoint=out / "checkpoint")
        rates = label_rates(data.part("train"), data.levels)
        figures = training_figures(model, data, result)
        of_sides = OfSides(
            fitted_amounts(data, "train", "validation"),
            fitted_guards(data, "train", "validation"),
            posteriors(model, data, how),
        )
        # Embeddings of all accounts take the memory of the labeled rows, which are not read again.
        data = replace(data, rows={})
        version = write_bundle(
            model,
            data,
            out,
            recipe=how.recipe,
            corrections=corrections,
            metrics=figures,
            label_rates=rates,
            of_sides=of_sides,
        )
    return version, result


def fit_model(
    data: TrainingSet, how: Training, config: TrainingConfig, *, checkpoint: Path | None = None
) -> tuple[SidedModel, FitResult, dict[Side, float]]:
    """Train in this process, calibrate and repair; return the model, the result of training, and the corrections.

    The flat policy is fitted on train and validation together. With ``rolling`` the model is trained on both too, and
    the validation loss is the mean over the past weeks that calibration predicts. Arguments are those of
    :func:`fit_bundle`.
    """
    how.check(data.inputs.about)
    if how.recipe == FLAT:
        rows = whole(data)
        fitted = fit_separate(rows, flat(data), config)
        return fitted, FitResult(0, 0, held_out_loss(fitted, rows, "train"), []), dict.fromkeys(data.rows, 0.0)
    if how.calibration != ROLLING:
        options = {"loss": how.loss} if how.loss else {}
        model, result = train(data, how.recipe, config, checkpoint=checkpoint, options=options, amounts=how.amounts)
        corrections = calibrate(model, data) if how.calibration == VALIDATION else {}
        return repair(model, data, how.curve_repair), result, corrections
    spec = recipe_of(how.recipe, data)
    if not isinstance(spec, Separate):
        raise _no_rolling(how.recipe)
    few = "needs more than two weeks of labeled rows before the test; use 'validation'"
    require(past_weeks(data), "calibration", few)
    losses = []

    def of_week(then: TrainingSet) -> SeparateModels:
        fitted = fit_separate(whole(then), spec, config)
        losses.append(held_out_loss(fitted, then, "test"))
        return fitted

    separate = fit_separate(whole(data), spec, config)
    corrections = calibrate_by_weeks(separate, data, of_week)
    loss = sum(losses) / len(losses)
    return repair(separate, data, how.curve_repair), FitResult(0, 0, loss, []), corrections


def posteriors(model: SidedModel, data: TrainingSet, how: Training) -> dict[Side, CurvePosterior]:
    """Side → law of the errors of its curves, by the validation rows, which a model is only stopped and calibrated by.

    Empty where a model was fitted on these rows too, and for sessions and segments, which have no such rows.
    """
    rows, learned = data.part("validation"), SUBJECTS[data.inputs.about].learned
    if "validation" in learned or how.calibration == ROLLING or not all(map(len, rows.values())):
        return {}
    found = {}
    for side, curves in model.curves(data.inputs, rows).items():
        level, y = labels(rows[side])
        weight, account = row_weights(rows[side], len(data.levels[side])), row_clusters(rows[side])
        found[side] = CurvePosterior.fit(curves, level, y, account, weight, probability=side == "customer")
    return found


def training_figures(model: SidedModel, data: TrainingSet, result: FitResult) -> dict[str, float]:
    """Figures of a training: those of models that train by a configuration of their own, else losses and epochs."""
    if SUBJECTS[data.inputs.about].learned:
        return model.unrepaired().figures(data.inputs, data.part("test"))
    return {name: getattr(result, name) for name in ("validation_loss", "epochs", "best_epoch")}


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
