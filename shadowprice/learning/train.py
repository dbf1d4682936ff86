"""Training a recipe in this process: the step every trainer shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from torch import Tensor

from shadowprice.checks import require
from shadowprice.evaluation import metrics
from shadowprice.learning.recipes import Separate, recipe
from shadowprice.learning.training_set import TrainingSet
from shadowprice.progress import ProgressBar
from shadowprice.responses.base import at_level, labels
from shadowprice.responses.joint.batches import ALONE, Processes, make_batches
from shadowprice.responses.joint.fit import fit_network, scheduled
from shadowprice.responses.joint.model import JointModel
from shadowprice.responses.separate import SeparateModels
from shadowprice.responses.sided import SidedModel
from shadowprice.responses.training import FitResult, Progress, TrainingConfig
from shadowprice.responses.training.checkpoint import checkpointing

MANY_ACCOUNTS = 50_000
"""Beyond, an epoch of a separate model is long."""


def sized(config: TrainingConfig, accounts: int) -> TrainingConfig:
    """The configuration of separate models: where accounts are many, larger steps and fewer epochs, sooner given up."""
    if config.batch_rows or accounts <= MANY_ACCOUNTS:
        return config
    return replace(config, batch_rows=4096, epochs=max(1, config.epochs // 10), patience=3, decay=0.9)


def train(
    data: TrainingSet,
    name: str,
    config: TrainingConfig,
    *,
    checkpoint: Path | None = None,
    rank: int = 0,
    processes: Processes = ALONE,
    wrap: Callable[[JointModel], Callable[..., Tensor]] | None = None,
    report: Progress | None = None,
) -> tuple[SidedModel, FitResult]:
    """Train what ``name`` stands for.

    Of these arguments only ``data``, ``name``, ``config`` and ``checkpoint`` matter to separate models. Each holds out
    of ``train`` what it needs, and the validation loss is computed here.

    Args:
        data: the training set; its ``train`` and ``validation`` splits are used.
        name: one of :func:`~shadowprice.learning.recipes.recipe_names`.
        config: of the training loop.
        checkpoint: directory to save to and resume from.
        rank: number of this process, which trains on the rows of every ``processes.count``-th account.
        processes: that train together.
        wrap: makes the data-parallel callable of the prepared model.
        report: called after every epoch, instead of showing the progress.
    """
    splits = {split: data.part(split) for split in ("train", "validation")}
    for side, rows in splits["validation"].items():
        none = f"side {side!r} has no validation row to stop and calibrate by; give more accounts or another split"
        require(len(rows), "split", none)
    spec = recipe(name, data)
    if isinstance(spec, Separate):
        with checkpointing(checkpoint, stamp=config.stamp):
            separate = fit_separate(data, spec, config)
        seen = replace(data, snapshots=data.seen_by("train", "validation"))
        return separate, FitResult(0, 0, held_out_loss(separate, seen, "validation"), [])
    model = JointModel.prepare(spec, data.seen_by("train"), splits["train"], config.seed)
    whole = model.data(data.seen_by("train", "validation"), splits["train"], splits["validation"])
    if processes.count > 1:
        own = {side: rows.take(rows.node % processes.count == rank) for side, rows in whole.train.items()}
        whole = replace(whole, train=own)
    batches = make_batches(whole, config.seed, processes)
    config = scheduled(config, batches.count)
    with ProgressBar(f"train {name}", config.epochs, "epoch", shown=report is None) as shown:

        def progress(row: dict[str, float]) -> None:
            shown.reach(int(row["epoch"]) + 1, f"validation {row['validation_loss']:.4f}")
            if report is not None:
                report(row)

        with checkpointing(checkpoint, stamp=config.stamp, leader=rank == 0):
            result = fit_network(
                model.network,
                batches,
                config,
                forward=wrap(model) if wrap else None,
                processes=processes,
                progress=progress,
            )
    return model, result


def fit_separate(data: TrainingSet, spec: Separate, config: TrainingConfig) -> SeparateModels:
    """One response model per side, fitted on the ``train`` split; each holds out of it what it needs."""
    snapshots = data.seen_by("train", "validation")
    model = SeparateModels.prepare(
        spec.models,
        data.levels,
        seed=config.seed,
        graph=snapshots,
        training=sized(config, snapshots[-1].nodes),
        **spec.options,
    )
    model.fit(snapshots, data.part("train"))
    return model


def held_out_loss(model: SidedModel, data: TrainingSet, split: str) -> float:
    """Loss of the rows of one split, added over sides: log loss of customers, squared error of merchants."""
    held_out = data.part(split)
    loss = 0.0
    for side, curves in model.curves(data.snapshots, held_out).items():
        level, y = labels(held_out[side])
        p = at_level(curves, level)
        loss += float(metrics.logloss(y, np.clip(p, 1e-6, 1 - 1e-6)) if side == "customer" else metrics.mse(y, p))
    return loss
