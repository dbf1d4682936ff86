"""Gradient descent on rows: AdamW, steps of bounded size, early stop at the best measure on held-out rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW

from shadowprice.responses.training import FitResult, Progress, TrainingConfig

LARGEST_STEP = 65_536
"""Rows of a gradient step where the configuration asks for all of them: memory stays bounded."""


def descend(
    module: nn.Module,
    rows: int,
    loss: Callable[[Tensor, int], Tensor],
    measure: Callable[[], float],
    config: TrainingConfig,
    *,
    parameters: Iterable[nn.Parameter] | Iterable[dict[str, Any]] | None = None,
    optimiser: Callable[..., Adam] = AdamW,
    order: Callable[[int], Iterable[Tensor]] | None = None,
    progress: Progress | None = None,
    keep_start: bool = False,
    least_epochs: int = 0,
    least_gain: float = 0.0,
) -> FitResult:
    """Train ``module`` in place and leave it at its best epoch.

    Args:
        module: what is trained, and whose state is kept.
        rows: how many training rows there are.
        loss: of the rows at an index (n,), in an epoch.
        measure: on held-out rows, to be small.
        config: ``batch_rows`` 0 takes all rows in steps of at most 65 536.
        parameters: those of ``module`` by default, or groups of them as an optimiser takes them; the rest of it is left
            alone, bit for bit.
        optimiser: AdamW, whose weight decay is apart from the gradient, or a kind of it. Adam divides the decay by the
            size of the gradient: what hears little, as an encoder does at first, goes to 0 at the full learning rate.
        order: indices of the steps of an epoch, in place of :func:`batches`.
        progress: called after every epoch with epoch, train_loss, validation_loss.
        keep_start: whether the state before the first epoch may be the best.
        least_epochs: patience counts from here on; a loss that changes until then must not be given up for
            standing still.
        least_gain: by how much the measure must fall to count as better.
    """
    trained = list(module.parameters() if parameters is None else parameters)
    descent = optimiser(trained, lr=config.learning_rate, weight_decay=config.weight_decay)
    stepped = [each for group in descent.param_groups for each in group["params"]]
    schedule = torch.optim.lr_scheduler.ExponentialLR(descent, config.decay)
    random = torch.Generator().manual_seed(config.seed)
    best = measured(module, measure) if keep_start else math.inf
    best_epoch, best_state = -1, deepcopy(module.state_dict())
    history: list[dict[str, float]] = []
    for epoch in range(config.epochs):
        if epoch - max(best_epoch, least_epochs) > config.patience:
            break
        module.train()
        losses = []
        for index in order(epoch) if order else batches(rows, config.batch_rows, random):
            descent.zero_grad()
            value = loss(index, epoch)
            value.backward()  # type: ignore[no-untyped-call]
            # On a processor what foreach looks up takes longer than the loop that it saves.
            torch.nn.utils.clip_grad_norm_(stepped, 5.0, foreach=False)
            descent.step()
            losses.append(float(value.detach()))
        schedule.step()
        held_out = measured(module, measure)
        if not math.isfinite(held_out):
            break
        history.append({"epoch": float(epoch), "train_loss": sum(losses) / len(losses), "validation_loss": held_out})
        if held_out < best - least_gain:
            best, best_epoch, best_state = held_out, epoch, deepcopy(module.state_dict())
        if progress is not None:
            progress(history[-1])
    module.load_state_dict(best_state)
    module.eval()
    return FitResult(len(history), best_epoch, best, history)


def measured(module: nn.Module, measure: Callable[[], float]) -> float:
    """``measure`` of the module as it serves."""
    module.eval()
    with torch.no_grad():
        return measure()


def batches(rows: int, size: int, random: torch.Generator) -> Iterator[Tensor]:
    """Indices of the steps of an epoch: every row once, in a new order unless one step takes all."""
    size = min(size or LARGEST_STEP, LARGEST_STEP)
    if rows <= size:
        yield torch.arange(rows)
        return
    yield from torch.randperm(rows, generator=random).chunk(math.ceil(rows / size))
