"""Training a recipe in this process: the step every trainer shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from torch import Tensor
from tqdm import tqdm

from shadowprice.campaign import Side
from shadowprice.errors import InvalidInput
from shadowprice.learning.recipes import recipe
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.joint import JointModel
from shadowprice.responses.network import Rows
from shadowprice.responses.training import FitResult, Progress, TrainingConfig, TrainingData, fit_network

WHOLE_GRAPH_NODES = 50_000
"""Up to this many nodes one step on the whole graph is quicker than many on sampled neighbourhoods."""


def sized(config: TrainingConfig, nodes: int) -> TrainingConfig:
    """The configuration for a graph of ``nodes`` nodes: large ones are trained on sampled neighbourhoods.

    An epoch is then many steps instead of one, so there are fewer of them, sooner given up.
    """
    if config.batch_rows or nodes <= WHOLE_GRAPH_NODES:
        return config
    return replace(config, batch_rows=4096, epochs=max(1, config.epochs // 10), patience=3, decay=0.9, save_every=1)


def train(
    data: TrainingSet,
    name: str,
    config: TrainingConfig,
    *,
    checkpoint: Path | None = None,
    shard: tuple[int, int] = (0, 1),
    wrap: Callable[[JointModel], Callable[..., Tensor]] | None = None,
    agree: Callable[[float], float] | None = None,
    report: Progress | None = None,
) -> tuple[JointModel, FitResult]:
    """Train the recipe ``name``.

    Args:
        data: the training set; its ``train`` and ``validation`` splits are used.
        name: the recipe.
        config: of the training loop.
        checkpoint: directory to save to and resume from.
        shard: (rank, processes): this process trains on every processes-th row.
        wrap: makes the data-parallel callable of the prepared model.
        agree: mean of a number over all processes.
        report: called after every epoch, instead of a progress bar.
    """
    splits = {split: data.part(split) for split in ("train", "validation")}
    for side, rows in splits["validation"].items():
        if rows.empty:
            raise InvalidInput(
                f"side {side!r} has no validation row to stop and calibrate by; give more accounts or another split",
                field="split",
            )
    model = JointModel.prepare(recipe(name, data), data.seen_by("train"), splits["train"], config.seed)
    whole = model.data(data.seen_by("train", "validation"), splits["train"], splits["validation"])
    config = sized(config, whole.graph.nodes)
    rank, processes = shard
    # Shards of one size, so that all processes take the same number of steps.
    mine: dict[Side, Rows] = {
        side: rows.take(slice(rank, len(rows) - len(rows) % processes, processes)) for side, rows in whole.train.items()
    }
    with tqdm(
        total=config.epochs, desc=f"train {name}", unit="epoch", disable=report is not None, mininterval=1.0
    ) as bar:

        def progress(row: dict[str, float]) -> None:
            bar.update(int(row["epoch"]) + 1 - bar.n)
            bar.set_postfix(validation=f"{row['validation_loss']:.4f}")
            if report is not None:
                report(row)

        result = fit_network(
            model.network,
            TrainingData(whole.graph, mine, whole.validation),
            config,
            forward=wrap(model) if wrap else None,
            progress=progress,
            checkpoint=checkpoint,
            leader=rank == 0,
            agree=agree,
        )
    return model, result
