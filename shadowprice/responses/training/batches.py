"""Order of the training rows."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from shadowprice.responses.training.config import TrainingConfig
from shadowprice.responses.training.processes import this_process

LARGEST_STEP = 65_536
"""Rows of a gradient step where the configuration asks for all of them: memory stays bounded."""


def shuffled(rows: int, config: TrainingConfig) -> Callable[[int], Iterator[Tensor]]:
    """Return a function of the epoch that gives the rows of each gradient step.

    Every row comes once in an epoch, in a new order unless one step takes all; ``batch_rows`` 0 takes all rows in steps
    of at most 65 536. Ask for epochs in ascending order; those left out are drawn and dropped.

    Several processes take equally many steps, each of its own rows: ``batch_rows`` are those of all of them together.
    """
    size = min(config.batch_rows or LARGEST_STEP, LARGEST_STEP)
    here = this_process()
    steps_of_all = math.ceil(here.total(rows) / size)
    random = torch.Generator().manual_seed(config.seed)
    drawn = 0

    def steps(epoch: int) -> Iterator[Tensor]:
        nonlocal drawn
        if steps_of_all <= 1:
            yield torch.arange(rows)
            return
        while drawn <= epoch:
            order = torch.randperm(rows, generator=random)
            drawn += 1
        yield from order.chunk(steps_of_all) if here.count == 1 else order.tensor_split(steps_of_all)

    return steps
