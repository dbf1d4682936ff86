"""Handing a network to a team of processes, each of which gets its own rows and nothing of the others'."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from shadowprice.responses.training.checkpoint import checkpointing, pass_on
from shadowprice.responses.training.config import FitResult, Progress

Part = TypeVar("Part")
Fit = Callable[[Any, Part, Progress | None], FitResult]
"""Function that trains a module in place on a part of the rows."""

LEAST_ROWS = 16
"""Rows of each process, at least; fewer are trained on where they are."""


@dataclass(frozen=True)
class Trained:
    """Result of a task: losses, weights by name, and torch's random generator as training leaves it."""

    result: FitResult
    weights: Mapping[str, Tensor]
    random: Tensor


@dataclass(frozen=True)
class Task:
    """One run of a training loop, for every process of a team.

    fit         trains ``module`` in place; it must not refer to rows
    module      untrained
    checkpoint  arguments of :func:`~shadowprice.responses.training.checkpoint.checkpointing`
    random      state of torch's generator
    """

    fit: Fit[Any]
    module: nn.Module
    checkpoint: Mapping[str, Any]
    random: Tensor

    def run(self, part: Any) -> Trained:
        """Train on the rows of this process, inside :func:`~shadowprice.responses.training.processes.together`."""
        torch.set_rng_state(self.random)
        with checkpointing(**self.checkpoint):
            result = self.fit(self.module, part, None)
        return Trained(result, self.module.state_dict(), torch.get_rng_state())


class Team(Protocol):
    """Processes that train in place of this one.

    count  how many
    """

    count: int

    def train(self, task: Task, parts: Sequence[Any]) -> Trained:
        """Run the task in every process, each with its part; return what the first one found."""


_TEAM: ContextVar[Team | None] = ContextVar("team", default=None)


@contextmanager
def trained_by(team: Team | None) -> Iterator[None]:
    """Give the networks that are trained inside to a team; None trains in this process."""
    token = _TEAM.set(team)
    try:
        yield
    finally:
        _TEAM.reset(token)


def has_team() -> bool:
    """Return whether a team trains in place of this process, and shows the progress."""
    return _TEAM.get() is not None


def share_out(
    fit: Fit[Part],
    module: nn.Module,
    deal: Callable[[int, int], Part],
    rows: int,
    progress: Progress | None = None,
) -> FitResult:
    """Train ``module`` in place on all rows, in this process or by the team of :func:`trained_by`.

    The loss must be a mean of rows that divides by :meth:`~shadowprice.responses.training.processes.Processes.share`:
    then the mean of the gradients of all parts is the gradient of all rows. A loss of a set of rows, such as a
    ranking, has no parts; call ``fit`` itself.

    Args:
        fit: trains on the rows of one process. It is sent to the others with all that it refers to.
        module: untrained.
        deal: rows of process ``rank`` of ``count``.
        rows: of the smallest set that is dealt; few rows are trained on in this process.
        progress: called after every epoch in this process; a team shows its own.
    """
    team = _TEAM.get()
    if team is None or rows < LEAST_ROWS * team.count:
        return fit(module, deal(0, 1), progress)
    task = Task(fit, module, pass_on(), torch.get_rng_state())
    trained = team.train(task, [deal(rank, team.count) for rank in range(team.count)])
    module.load_state_dict(trained.weights)
    module.eval()
    if team.count == 1:
        torch.set_rng_state(trained.random)
    return trained.result
