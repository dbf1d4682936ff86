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
from shadowprice.responses.training.loop import descend
from shadowprice.responses.training.processes import ALONE, this_process

BATCH_ROWS = 512
"""Rows of a step where the configuration leaves it open."""

LEAST_GAIN = 1e-6
"""By how much the validation loss must fall to count as better."""


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
    together: Tensor | None = None,
    by_row: bool = True,
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
        together: (n,) codes from 0: rows of one code stand next to each other, so that what they share is
            computed once in a step. Codes are shuffled in place of rows.
        by_row: whether several processes share out the rows of a step, which False forbids.
        options: of :func:`~shadowprice.responses.training.loop.descend`, such as ``least_epochs``.
    """
    count = steps_per_epoch(len(train), config)
    here = this_process() if by_row else ALONE

    def steps(epoch: int) -> Iterator[tuple[Tensor, int]]:
        random = np.random.default_rng([config.seed, epoch])
        order = random.permutation(len(train))
        if together is not None:
            code = together.numpy()[order]
            order = order[np.argsort(random.permutation(int(code.max()) + 1)[code], kind="stable")]
        parts = map(here.part, torch.tensor_split(torch.from_numpy(order), count))
        return zip(parts, range(epoch * count, (epoch + 1) * count), strict=True)

    return descend(
        module,
        steps,
        lambda step, _: loss(train.take(step[0]), step[1]),
        lambda: float(judge(validation)),
        config,
        parameters=parameters,
        progress=progress,
        least_gain=LEAST_GAIN,
        **options,
    )
