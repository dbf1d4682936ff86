"""Rows of a table as tensors, and descent on them in minibatches."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Generic, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shadowprice.responses.training.config import FitResult, Progress, TrainingConfig
from shadowprice.responses.training.devices import placed
from shadowprice.responses.training.loop import BestEpoch, GradientDescent
from shadowprice.responses.training.team import share_out

BATCH_ROWS = 512
"""Rows of a step where the configuration leaves it open."""

BEST = BestEpoch(least_gain=1e-6)
"""Rule of the epoch that a module of a table keeps."""


@dataclass(frozen=True, eq=False)
class TabularRows:
    """n labeled rows as tensors: numeric (n, P), category (n, C), level, response, weight (n,)."""

    numeric: Tensor
    category: Tensor
    level: Tensor
    response: Tensor
    weight: Tensor

    def __len__(self) -> int:
        return int(self.level.shape[0])

    def take(self, index: Tensor) -> Self:
        """The rows at ``index`` (positions or a mask)."""
        at = index.nonzero().squeeze(1) if index.dtype == torch.bool else index
        return type(self)(**{f.name: getattr(self, f.name).index_select(0, at) for f in fields(self)})


Rows = TypeVar("Rows", bound=TabularRows)


def steps_per_epoch(rows: int, config: TrainingConfig) -> int:
    """Gradient steps of an epoch."""
    return max(1, math.ceil(rows / (config.batch_rows or BATCH_ROWS)))


@dataclass(frozen=True, eq=False, kw_only=True)
class Objective(Generic[Rows]):
    """Losses of rows that a module is fitted by.

    judge   validation loss that decides when to stop
    loss    of a minibatch at a step, counted from 0 over all epochs; ``judge`` by default
    code    (n,) codes of rows, from 0: rows of one code stand next to each other, so that what they share is computed
            once in a step. Codes are shuffled in place of rows
    by_row  whether several processes share out the rows, which False forbids
    """

    judge: Callable[[Rows], Tensor]
    loss: Callable[[Rows, int], Tensor] | None = None
    code: Callable[[Rows], Tensor] | None = None
    by_row: bool = True

    def order(self, rows: Rows, random: np.random.Generator) -> NDArray[np.intp]:
        """Return the order of the rows in an epoch."""
        order = random.permutation(len(rows))
        if self.code is None:
            return order
        own = self.code(rows).numpy()[order]
        return order[np.argsort(random.permutation(int(own.max()) + 1)[own], kind="stable")]

    def step(self, rows: Rows, step: int) -> Tensor:
        """Return the loss of a minibatch."""
        return self.judge(rows) if self.loss is None else self.loss(rows, step)

    def deal(self, train: Rows, validation: Rows, rank: int, processes: int) -> tuple[Rows, Rows]:
        """Return the part of one of several processes; rows of one code stay together."""
        if processes == 1:
            return train, validation
        by = torch.arange(len(train)) if self.code is None else self.code(train)
        return train.take(by % processes == rank), validation.take(torch.arange(len(validation)) % processes == rank)


def fit_module(
    module: nn.Module,
    objective: Objective[Rows],
    train: Rows,
    validation: Rows,
    config: TrainingConfig,
    progress: Progress | None = None,
    best: BestEpoch = BEST,
    **options: Any,
) -> FitResult:
    """Train a module in place and leave it at its best validation epoch.

    Args:
        module: what holds the state.
        objective: what is minimized, and how rows are put in order.
        train, validation: rows; every epoch sees every training row once, in an order of its own.
        config: ``batch_rows`` 0 takes :data:`BATCH_ROWS`.
        progress: called after every epoch with epoch, train_loss, validation_loss.
        best: which epoch is kept.
        options: of :class:`~shadowprice.responses.training.loop.GradientDescent`, such as ``parameters``.
    """
    count = steps_per_epoch(len(train), config)

    def fit(module: nn.Module, part: tuple[Rows, Rows], progress: Progress | None) -> FitResult:
        train, validation = part

        def steps(epoch: int) -> Iterator[tuple[Tensor, int]]:
            order = objective.order(train, np.random.default_rng([config.seed, epoch]))
            parts = torch.tensor_split(torch.from_numpy(order), count)
            return zip(parts, range(epoch * count, (epoch + 1) * count), strict=True)

        return GradientDescent(
            module,
            steps,
            lambda step, _: objective.step(placed(train.take(step[0]), config.device), step[1]),
            lambda: float(objective.judge(placed(validation, config.device))),
            **options,
        ).run(config, progress=progress, best=best)

    if not objective.by_row:
        return fit(module, (train, validation), progress)
    deal = partial(objective.deal, train, validation)
    return share_out(fit, module, deal, min(len(train), len(validation)), progress)
