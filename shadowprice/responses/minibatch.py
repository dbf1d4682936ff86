"""Training of a module on the rows of a table: Adam in minibatches, early stop, fixed seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor, nn

from shadowprice.responses.training import FitResult, Progress, TrainingConfig

BATCH_ROWS = 512
"""Rows of a step where the configuration leaves it open."""


@dataclass(frozen=True, eq=False)
class TabularRows:
    """n labelled rows as tensors: numeric (n, P), category (n, C), level, response, weight (n,)."""

    numeric: Tensor
    category: Tensor
    level: Tensor
    response: Tensor
    weight: Tensor

    def __len__(self) -> int:
        return int(self.level.shape[0])

    def take(self, index: Tensor) -> TabularRows:
        """The rows at ``index`` (positions or a mask)."""
        return TabularRows(**{f.name: getattr(self, f.name)[index] for f in fields(self)})


def weighted_mean(losses: Tensor, weight: Tensor) -> Tensor:
    """Σ w·loss / Σ w of losses (n,)."""
    return (losses * weight).sum() / weight.sum()


def steps_per_epoch(rows: int, config: TrainingConfig) -> int:
    """Gradient steps of an epoch."""
    return max(1, math.ceil(rows / (config.batch_rows or BATCH_ROWS)))


def fit_module(
    module: nn.Module,
    parameters: Sequence[nn.Parameter],
    loss: Callable[[TabularRows, int], Tensor],
    judge: Callable[[TabularRows], Tensor],
    train: TabularRows,
    validation: TabularRows,
    config: TrainingConfig,
    progress: Progress | None = None,
    *,
    least_epochs: int = 0,
) -> FitResult:
    """Train ``parameters`` of ``module`` in place and leave it at its best validation epoch.

    Args:
        module: what holds the state.
        parameters: what is trained; the rest of the module is left alone, bit for bit.
        loss: of a minibatch at a step, counted from 0 over all epochs.
        judge: validation loss that decides when to stop.
        train, validation: rows; every epoch sees every training row once, in an order of its own.
        config: ``batch_rows`` 0 takes :data:`BATCH_ROWS`.
        progress: called after every epoch with epoch, train_loss, validation_loss.
        least_epochs: patience counts from here on; a loss that changes until then must not be given up for
            standing still.
    """
    optimiser = torch.optim.AdamW(parameters, lr=config.learning_rate, weight_decay=config.weight_decay)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimiser, config.decay)
    history: list[dict[str, float]] = []
    best, best_epoch, best_state = math.inf, -1, deepcopy(module.state_dict())
    step = 0
    for epoch in range(config.epochs):
        if epoch - max(best_epoch, least_epochs) > config.patience:
            break
        order = torch.from_numpy(np.random.default_rng([config.seed, epoch]).permutation(len(train)))
        losses = []
        for index in torch.tensor_split(order, steps_per_epoch(len(train), config)):
            optimiser.zero_grad()
            value = loss(train.take(index), step)
            value.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(parameters, 5.0)
            optimiser.step()
            losses.append(float(value.detach()))
            step += 1
        schedule.step()
        with torch.no_grad():
            held_out = float(judge(validation))
        if not math.isfinite(held_out):
            break
        history.append({"epoch": float(epoch), "train_loss": sum(losses) / len(losses), "validation_loss": held_out})
        if held_out < best - 1e-6:
            best, best_epoch, best_state = held_out, epoch, deepcopy(module.state_dict())
        if progress is not None:
            progress(history[-1])
    module.load_state_dict(best_state)
    return FitResult(len(history), best_epoch, best, history)
