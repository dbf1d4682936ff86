"""The training loop of every network here: Adam, early stop, checkpoint and resume, fixed seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from shadowprice.campaign import Side
from shadowprice.encoders.base import GraphTensors
from shadowprice.responses.checkpoint import load_checkpoint, save_checkpoint
from shadowprice.responses.joint.batches import Batches, SampledNeighbourhoods, WholeGraph
from shadowprice.responses.joint.network import ResponseNetwork, Rows


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How a network is trained.

    learning_rate  of Adam at the start
    decay          factor on the learning rate after every epoch (S0: exponential, 0.95; closer to 1
                   by default because an epoch is one step)
    epochs         at most; an epoch sees every row once
    patience       epochs without a better validation loss before stopping
    batch_rows     rows of a gradient step with a sampled neighbourhood; 0 takes one step per epoch on
                   the whole graph
    weight_decay   L2, decoupled
    seed           of initialisation and dropout
    stamp          names recipe and data, so that a checkpoint of others is not resumed
    save_every     epochs between checkpoints
    """

    learning_rate: float = 2e-3
    decay: float = 0.995
    epochs: int = 400
    patience: int = 40
    batch_rows: int = 0
    weight_decay: float = 1e-3
    seed: int = 0
    stamp: str = ""
    save_every: int = 25


@dataclass(frozen=True)
class FitResult:
    """What training did: epochs run, the best one, and the losses by epoch."""

    epochs: int
    best_epoch: int
    validation_loss: float
    history: list[dict[str, float]]


@dataclass(frozen=True, eq=False)
class TrainingData:
    """A graph and the labelled rows of each side, by split."""

    graph: GraphTensors
    train: Mapping[Side, Rows]
    validation: Mapping[Side, Rows]


Progress = Callable[[dict[str, float]], None]


def fit_network(
    network: ResponseNetwork,
    data: TrainingData,
    config: TrainingConfig,
    *,
    forward: Callable[..., Tensor] | None = None,
    progress: Progress | None = None,
    checkpoint: Path | None = None,
    leader: bool = True,
    agree: Callable[[float], float] | None = None,
) -> FitResult:
    """Train in place and leave the network at its best validation epoch.

    Args:
        network: what is trained.
        data: the rows of this process; the graph is whole in every process.
        config: how.
        forward: the callable that computes the loss; a data-parallel wrapper of ``network``.
        progress: called after every epoch with epoch, train_loss, validation_loss.
        checkpoint: directory to save to and, when it holds one of the same configuration, resume from.
        leader: whether this process writes the checkpoints; all of them read the same ones.
        agree: mean of a number over all processes, so that they stop at the same epoch.

    O(epochs · (edges · width + rows · width · levels)); with ``batch_rows``, edges are those of the neighbourhoods.
    """
    run = forward or network
    batches: Batches = (
        SampledNeighbourhoods(data.graph, data.train, config.batch_rows, config.seed)
        if config.batch_rows
        else WholeGraph(data.graph, data.train)
    )
    validation = {side: rows.tensors() for side, rows in data.validation.items()}
    optimiser = torch.optim.AdamW(network.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimiser, config.decay)
    history: list[dict[str, float]] = []
    best, best_epoch, best_state = math.inf, -1, deepcopy(network.state_dict())
    first = 0
    if checkpoint is not None and (found := load_checkpoint(checkpoint, asdict(config))) is not None:
        network.load_state_dict(found.network)
        found.restore(optimiser)
        best, best_epoch, best_state, history = found.best, found.best_epoch, found.best_network, found.history
        first = len(history)
        schedule.last_epoch = first
    for epoch in range(first, config.epochs):
        if epoch - best_epoch > config.patience and best_epoch >= 0:
            break
        network.train()
        # Dropout masks depend on the epoch alone, so that a resumed run repeats an uninterrupted one.
        torch.manual_seed(config.seed * 1_000_003 + epoch)
        losses = []
        for graph, rows in batches.steps(epoch):
            optimiser.zero_grad()
            loss = run(graph, rows)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
            optimiser.step()
            for side in data.train:
                network.layer(side).shrink(lambda parameter: _step_length(optimiser, parameter))
            losses.append(float(loss.detach()))
        schedule.step()
        network.eval()
        with torch.no_grad():
            held_out = float(network(data.graph, validation))
        held_out = held_out if agree is None else agree(held_out)
        if not math.isfinite(held_out):
            break
        history.append({"epoch": float(epoch), "train_loss": sum(losses) / len(losses), "validation_loss": held_out})
        if held_out < best - 1e-6:
            best, best_epoch, best_state = held_out, epoch, deepcopy(network.state_dict())
        if progress is not None:
            progress(history[-1])
        if leader and checkpoint is not None and (epoch + 1) % config.save_every == 0:
            save_checkpoint(checkpoint, asdict(config), network, optimiser, best, best_epoch, best_state, history)
    network.load_state_dict(best_state)
    network.eval()
    return FitResult(len(history), best_epoch, best, history)


def _step_length(optimiser: torch.optim.Optimizer, parameter: torch.nn.Parameter) -> Tensor:
    """Length of Adam's last step per unit of gradient, per coordinate: the metric a proximal step must use."""
    group = optimiser.param_groups[0]
    state = optimiser.state[parameter]
    second = state["exp_avg_sq"] / (1.0 - group["betas"][1] ** float(state["step"]))
    return torch.as_tensor(group["lr"] / (second.sqrt() + group["eps"]))
