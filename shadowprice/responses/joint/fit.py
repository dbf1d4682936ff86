"""Training of the joint network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from shadowprice.campaign import Side
from shadowprice.encoders.base import GraphTensors
from shadowprice.responses.joint.batches import SampledNeighbourhoods, Step
from shadowprice.responses.joint.network import ResponseNetwork, Rows
from shadowprice.responses.training.config import FitResult, TrainingConfig
from shadowprice.responses.training.loop import descend


@dataclass(frozen=True, eq=False)
class TrainingData:
    """A graph and the labelled rows of each side, by split."""

    graph: GraphTensors
    train: Mapping[Side, Rows]
    validation: Mapping[Side, Rows]


def fit_network(
    network: ResponseNetwork,
    data: TrainingData,
    config: TrainingConfig,
    *,
    forward: Callable[..., Tensor] | None = None,
    agree: Callable[[float], float] | None = None,
    **options: Any,
) -> FitResult:
    """Train in place and leave the network at its best validation epoch.

    Args:
        network: what is trained.
        data: the rows of this process; the graph is whole in every process.
        config: ``batch_rows`` 0 takes one step per epoch on the whole graph.
        forward: the callable that computes the loss; a data-parallel wrapper of ``network``.
        agree: mean of a number over all processes, so that they stop at the same epoch.
        options: of :func:`~shadowprice.responses.training.loop.train_epochs`, such as ``progress``.

    O(epochs · (edges · width + rows · width · levels)); with ``batch_rows``, edges are those of the neighbourhoods.
    """
    run = forward or network
    whole = data.graph, {side: rows.tensors() for side, rows in data.train.items()}
    sampled = (
        SampledNeighbourhoods(data.graph, data.train, config.batch_rows, config.seed) if config.batch_rows else None
    )
    validation = {side: rows.tensors() for side, rows in data.validation.items()}

    def steps(epoch: int) -> Iterable[Step]:
        # Dropout masks depend on the epoch alone, so that all processes draw the same.
        torch.manual_seed(config.seed * 1_000_003 + epoch)
        return sampled.steps(epoch) if sampled else [whole]

    def measure() -> float:
        held_out = float(network(data.graph, validation))
        return held_out if agree is None else agree(held_out)

    def shrink(optimiser: torch.optim.Optimizer) -> None:
        for side in data.train:
            network.layer(side).shrink(lambda parameter: _step_length(optimiser, parameter))

    return descend(
        network,
        steps,
        lambda step, _: run(*step),
        measure,
        config,
        after_step=shrink,
        least_gain=1e-6,
        **options,
    )


def _step_length(optimiser: torch.optim.Optimizer, parameter: torch.nn.Parameter) -> Tensor:
    """Length of Adam's last step per unit of gradient, per coordinate: the metric a proximal step must use."""
    group = optimiser.param_groups[0]
    state = optimiser.state[parameter]
    second = state["exp_avg_sq"] / (1.0 - group["betas"][1] ** float(state["step"]))
    return torch.as_tensor(group["lr"] / (second.sqrt() + group["eps"]))
