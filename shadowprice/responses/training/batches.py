"""Order of the training rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from shadowprice.responses.training.config import TrainingConfig
from shadowprice.responses.training.processes import ALONE, this_process

LARGEST_STEP = 65_536
"""Rows of a gradient step where the configuration asks for all of them: memory stays bounded."""


def shuffled(rows: int, config: TrainingConfig, *, by_row: bool) -> Callable[[int], Iterator[Tensor]]:
    """Return a function of the epoch that gives the rows of each gradient step.

    Every row comes once in an epoch, in a new order unless one step takes all; ``batch_rows`` 0 takes all rows in steps
    of at most 65 536. Ask for epochs in ascending order; those left out are drawn and dropped.

    Where several processes train together each gets its part of a step, if the loss is a
    :func:`~shadowprice.responses.training.processes.weighted_mean` of rows (``by_row``). A loss of a set of rows, such
    as a ranking, has no parts: every process computes it of the whole step.
    """
    size = min(config.batch_rows or LARGEST_STEP, LARGEST_STEP)
    random = torch.Generator().manual_seed(config.seed)
    here = this_process() if by_row else ALONE
    drawn = 0

    def steps(epoch: int) -> Iterator[Tensor]:
        nonlocal drawn
        if rows <= size:
            yield here.part(torch.arange(rows))
            return
        while drawn <= epoch:
            order = torch.randperm(rows, generator=random)
            drawn += 1
        yield from map(here.part, order.chunk(math.ceil(rows / size)))

    return steps
