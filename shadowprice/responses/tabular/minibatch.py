"""Rows of a table as tensors, and descent on them in minibatches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import count
from typing import Self, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW

from shadowprice.responses.descent import descend
from shadowprice.responses.training import FitResult, Progress, TrainingConfig

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


def weighted_mean(losses: Tensor, weight: Tensor) -> Tensor:
    """Σ w·loss / Σ w of losses (n,)."""
    return (losses * weight).sum() / weight.sum()


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
    least_epochs: int = 0,
    together: Tensor | None = None,
    optimiser: Callable[..., Adam] = AdamW,
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
        least_epochs: patience counts from here on, see :func:`~shadowprice.responses.descent.descend`.
        together: (n,) codes from 0: rows of one code stand next to each other, so that what they share is
            computed once in a step. Codes are shuffled in place of rows.
        optimiser: see :func:`~shadowprice.responses.descent.descend`.
    """
    step = count()

    def order(epoch: int) -> Iterable[Tensor]:
        random = np.random.default_rng([config.seed, epoch])
        rows = random.permutation(len(train))
        if together is not None:
            code = together.numpy()[rows]
            rows = rows[np.argsort(random.permutation(int(code.max()) + 1)[code], kind="stable")]
        return torch.tensor_split(torch.from_numpy(rows), steps_per_epoch(len(train), config))

    return descend(
        module,
        len(train),
        lambda index, _: loss(train.take(index), next(step)),
        lambda: float(judge(validation)),
        config,
        parameters=parameters,
        optimiser=optimiser,
        order=order,
        progress=progress,
        least_epochs=least_epochs,
        least_gain=LEAST_GAIN,
    )
