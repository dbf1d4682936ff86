"""Training a recipe in this process: the step every trainer shares."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from shadowprice.checks import require
from shadowprice.evaluation import metrics
from shadowprice.learning.recipes import Separate, recipe
from shadowprice.learning.training_set import TrainingSet
from shadowprice.progress import ProgressBar
from shadowprice.responses.base import at_level, labels
from shadowprice.responses.funds.delivered import DeliveryModel, given_levels
from shadowprice.responses.joint.batches import TrainingData
from shadowprice.responses.joint.fit import fit_rows
from shadowprice.responses.joint.model import JointModel, JointSpec
from shadowprice.responses.registry import model_class
from shadowprice.responses.separate import SeparateModels
from shadowprice.responses.sided import SidedModel
from shadowprice.responses.training import FitResult, Progress, TrainingConfig
from shadowprice.responses.training.checkpoint import checkpointing
from shadowprice.responses.training.team import has_team

MANY_ACCOUNTS = 50_000
"""Number of accounts beyond which an epoch of a separate model is long."""


def sized(config: TrainingConfig, accounts: int) -> TrainingConfig:
    """Return the configuration of separate models: larger batches, fewer epochs and less patience for many accounts."""
    if config.batch_rows or accounts <= MANY_ACCOUNTS:
        return config
    return replace(config, batch_rows=4096, epochs=max(1, config.epochs // 10), patience=3, decay=0.9)


def train(
    data: TrainingSet,
    name: str,
    config: TrainingConfig,
    *,
    checkpoint: Path | None = None,
    report: Progress | None = None,
    options: Mapping[str, Any] | None = None,
    amounts: str = "",
) -> tuple[SidedModel, FitResult]:
    """Train the recipe or model called ``name``.

    Separate models hold out the rows that each needs. Their validation loss is computed here, and NaN where they
    have no validation split of their own.

    Args:
        data: the training set; its ``train`` and ``validation`` splits are used.
        name: one of :func:`~shadowprice.learning.recipes.recipe_names`.
        config: of the training loop.
        checkpoint: directory to save to and resume from.
        report: called after every epoch of a joint network, instead of showing the progress.
        options: further ones of separate models.
        amounts: loss of amounts, see :func:`~shadowprice.learning.recipes.recipe`.
    """
    spec = recipe(name, data, amounts)
    if isinstance(spec, Separate):
        if not spec.own:
            check_validation(data)
        with checkpointing(checkpoint, stamp=config.stamp):
            separate = fit_separate(data, replace(spec, options={**spec.options, **(options or {})}), config)
        if spec.own:
            return separate, FitResult(0, 0, np.nan, [])
        seen = replace(data, inputs=data.seen_by("train", "validation"))
        return separate, FitResult(0, 0, held_out_loss(separate, seen, "validation"), [])
    model, rows = prepare_joint(data, spec, config.seed)
    return model, fit_joint(model, rows, name, config, checkpoint=checkpoint, report=report)


def check_validation(data: TrainingSet) -> None:
    """Refuse a training set in which a side has no validation row."""
    for side, rows in data.part("validation").items():
        none = f"side {side!r} has no validation row to stop and calibrate by; give more accounts or another split"
        require(len(rows), "split", none)


def prepare_joint(data: TrainingSet, spec: JointSpec, seed: int) -> tuple[JointModel, TrainingData]:
    """Return an untrained joint network and all its rows."""
    check_validation(data)
    train, validation = data.part("train"), data.part("validation")
    model = JointModel.prepare(spec, data.seen_by("train").snapshots, train, seed)
    return model, model.data(data.seen_by("train", "validation").snapshots, train, validation)


def fit_joint(
    model: JointModel,
    rows: TrainingData,
    name: str,
    config: TrainingConfig,
    *,
    checkpoint: Path | None = None,
    report: Progress | None = None,
) -> FitResult:
    """Train a prepared joint network in place; arguments are those of :func:`train`."""
    with ProgressBar(f"train {name}", config.epochs, "epoch", shown=report is None and not has_team()) as bar:

        def progress(row: dict[str, float]) -> None:
            bar.epoch(row)
            if report is not None:
                report(row)

        with checkpointing(checkpoint, stamp=config.stamp):
            return fit_rows(model.network, rows, config, progress)


def configured(spec: JointSpec | Separate, config: TrainingConfig) -> TrainingConfig:
    """Return the configuration that a recipe trains with; 0 epochs stand for the recipe's default.

    Separate models with an :attr:`~shadowprice.learning.recipes.Separate.own` configuration take epochs, precision and
    seed of ``config`` alone.
    """
    own = config
    if isinstance(spec, Separate) and spec.own:
        require(config.device == "cpu", "device", "must be cpu: no model of vouchers or funds is written for a GPU")
        own = getattr(model_class(next(iter(spec.models.values()))), "TRAINING", config)
    epochs = config.epochs or own.epochs or TrainingConfig.epochs
    return replace(own, epochs=epochs, precision=config.precision, seed=config.seed, stamp=config.stamp)


def fit_separate(data: TrainingSet, spec: Separate, config: TrainingConfig) -> SeparateModels:
    """Fit one response model per side on the splits of ``spec``; each holds out the rows that it needs."""
    inputs = data.seen_by("train", "validation")
    config = configured(spec, config) if spec.own else sized(config, inputs.snapshots[-1].nodes)
    label = f"train {' and '.join(dict.fromkeys(spec.models.values()))}"
    with ProgressBar(label, config.epochs, "epoch", shown=not has_team()) as bar:

        def progress(row: dict[str, float]) -> None:  # models are copied, and a function is shared by the copies
            bar.epoch(row)

        options = {"training": config, "progress": progress, **spec.options}
        made, levels = (DeliveryModel, given_levels(inputs)) if inputs.segments else (SeparateModels, data.levels)
        model = made.prepare(spec.models, levels, seed=config.seed, **options)
        model.fit(inputs, data.part(*spec.learned))
    return model


def held_out_loss(model: SidedModel, data: TrainingSet, split: str) -> float:
    """Loss of the rows of one split, added over sides: log loss of customers, squared error of merchants."""
    held_out = data.part(split)
    loss = 0.0
    for side, curves in model.curves(data.inputs, held_out).items():
        level, y = labels(held_out[side])
        p = at_level(curves, level)
        loss += float(metrics.logloss(y, np.clip(p, 1e-6, 1 - 1e-6)) if side == "customer" else metrics.mse(y, p))
    return loss
