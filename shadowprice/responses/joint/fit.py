"""Training of the joint network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from shadowprice.responses.joint.batches import ALONE, Batches, Processes, Step
from shadowprice.responses.joint.network import ResponseNetwork
from shadowprice.responses.training.config import FitResult, TrainingConfig
from shadowprice.responses.training.loop import descend


def scheduled(config: TrainingConfig, steps: int) -> TrainingConfig:
    """The configuration for epochs of so many steps.

    An epoch of one step is the default; where it has more, there are fewer epochs, sooner given up, that learn faster
    at first.
    """
    if steps == 1:
        return config
    epochs = max(1, config.epochs // 4)
    return replace(config, learning_rate=2.5 * config.learning_rate, decay=0.97, epochs=epochs, patience=8)


def fit_network(
    network: ResponseNetwork,
    batches: Batches,
    config: TrainingConfig,
    *,
    forward: Callable[..., Tensor] | None = None,
    processes: Processes = ALONE,
    **options: Any,
) -> FitResult:
    """Train in place and leave the network at its best validation epoch.

    Args:
        network: what is trained.
        batches: the steps of this process.
        config: see :func:`scheduled`; ``batch_rows`` is not read.
        forward: the callable that computes the loss; a data-parallel wrapper of ``network``.
        processes: that share the steps and stop at the same epoch. Their mean gradient is that of one process with the
            rows of all.
        options: of :func:`~shadowprice.responses.training.loop.train_epochs`, such as ``progress``.

    O(steps · (edges · width + rows · width · levels)).
    """
    run = forward or network

    def steps(epoch: int) -> Any:
        # Dropout masks depend on the epoch alone, so that all processes draw the same.
        torch.manual_seed(config.seed * 1_000_003 + epoch)
        return batches.steps(epoch)

    def loss(step: Step, _: int) -> Tensor:
        graph, rows = step
        if processes.count == 1:
            return run(graph, rows)
        return run(graph, rows, {side: processes.mean(float(each.weight.sum())) for side, each in rows.items()})

    def measure() -> float:
        return processes.mean(float(network(*batches.held_out)))

    def shrink(optimiser: torch.optim.Optimizer) -> None:
        for side in batches.held_out[1]:
            network.layer(side).shrink(lambda parameter: _step_length(optimiser, parameter))

    return descend(
        network,
        steps,
        loss,
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
