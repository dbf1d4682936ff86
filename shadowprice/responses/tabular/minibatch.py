"""Rows of a table as tensors, and descent on them in minibatches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from shadowprice.responses.training.config import FitResult, Progress, TrainingConfig
from shadowprice.responses.training.devices import placed
from shadowprice.responses.training.loop import descend
from shadowprice.responses.training.team import share_out

BATCH_ROWS = 512
"""Rows of a step where the configuration leaves it open."""

LEAST_GAIN = 1e-6
"""By how much the validation loss must fall to count as better."""


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


def fit_module(
    module: nn.Module,
    parameters: Sequence[nn.Parameter],
    loss: Callable[[Rows, int], Tensor],
    judge: Callable[[Rows], Tensor],
    train: Rows,
    validation: Rows,
    config: TrainingConfig,
    progress: Progress | None = None,
    *,
    code: Callable[[Rows], Tensor] | None = None,
    by_row: bool = True,
    places: bool = True,
    **options: Any,
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
        code: (n,) codes of rows, from 0: rows of one code stand next to each other, so that what they share is
            computed once in a step. Codes are shuffled in place of rows.
        by_row: whether several processes share out the rows, which False forbids.
        places: whether the loss may be computed on a GPU.
        options: of :func:`~shadowprice.responses.training.loop.descend`, such as ``least_epochs``.
    """
    count = steps_per_epoch(len(train), config)

    def fit(module: nn.Module, part: tuple[Rows, Rows], progress: Progress | None) -> FitResult:
        train, validation = part

        def steps(epoch: int) -> Iterator[tuple[Tensor, int]]:
            random = np.random.default_rng([config.seed, epoch])
            order = random.permutation(len(train))
            if code is not None:
                own = code(train).numpy()[order]
                order = order[np.argsort(random.permutation(int(own.max()) + 1)[own], kind="stable")]
            parts = torch.tensor_split(torch.from_numpy(order), count)
            return zip(parts, range(epoch * count, (epoch + 1) * count), strict=True)

        return descend(
            module,
            steps,
            lambda step, _: loss(placed(train.take(step[0]), config.device), step[1]),
            lambda: float(judge(placed(validation, config.device))),
            config,
            parameters=parameters,
            progress=progress,
            least_gain=LEAST_GAIN,
            places=places,
            **options,
        )

    def deal(rank: int, processes: int) -> tuple[Rows, Rows]:
        if processes == 1:
            return train, validation
        by = torch.arange(len(train)) if code is None else code(train)
        return train.take(by % processes == rank), validation.take(torch.arange(len(validation)) % processes == rank)

    if not by_row:
        return fit(module, (train, validation), progress)
    return share_out(fit, module, deal, min(len(train), len(validation)), progress)
