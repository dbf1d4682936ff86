"""Processes that train one network together: who takes which rows, and the mean of their gradients."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shadowprice.responses.training.config import Progress


@dataclass(frozen=True)
class Processes:
    """One of several processes that run the same training and take the same steps.

    rank    number of this process
    count   how many there are
    add     sums a tensor over all of them, in place; all must call it equally often
    report  called after every epoch, beside the progress of the model
    """

    rank: int = 0
    count: int = 1
    add: Callable[[Tensor], object] = lambda _: None
    report: Progress | None = None

    @property
    def leads(self) -> bool:
        """True for the process that writes."""
        return self.rank == 0

    def share(self, total: Tensor) -> Tensor:
        """Mean of a total over the processes.

        A loss that each divides by its share in place of its own total has, as the mean of the gradients, the
        gradient of the loss of all rows.
        """
        if self.count == 1:
            return total
        mean = total.detach().clone()
        self.add(mean)
        return mean / self.count

    def mean(self, value: float) -> float:
        """Mean of a number over the processes."""
        return value if self.count == 1 else float(self.share(torch.tensor(value, dtype=torch.float64)))

    def total(self, number: int) -> int:
        """Sum of a number over the processes."""
        return round(self.count * self.mean(float(number)))

    @torch.no_grad()
    def align(self, module: nn.Module) -> None:
        """Give the module of every process the weights of the first."""
        for tensor in module.state_dict().values() if self.count > 1 else ():
            if tensor.is_floating_point():
                if self.rank:
                    tensor.zero_()
                self.add(tensor)

    @torch.no_grad()
    def average(self, parameters: Sequence[nn.Parameter]) -> None:
        """Replace the gradients by their mean over the processes; one that no process has stays away."""
        if self.count == 1:
            return
        known = torch.tensor(
            [float(parameter.grad is not None) for parameter in parameters], device=parameters[0].device
        )
        parts = [torch.zeros_like(parameter) if parameter.grad is None else parameter.grad for parameter in parameters]
        flat = torch.cat([known, *(part.reshape(-1) for part in parts)])
        self.add(flat)
        known, *means = torch.split(
            flat / self.count, [known.numel(), *(parameter.numel() for parameter in parameters)]
        )
        for parameter, some, mean in zip(parameters, known.tolist(), means, strict=True):
            parameter.grad = mean.view_as(parameter).to(parameter.dtype) if some else None


ALONE = Processes()
_PROCESSES: ContextVar[Processes] = ContextVar("processes", default=ALONE)


@contextmanager
def together(processes: Processes) -> Iterator[None]:
    """Train the network inside with the other processes, which run the same code, each on its own rows.

    >>> with together(Processes(rank=0, count=1)):
    ...     this_process().count
    1
    """
    token = _PROCESSES.set(processes)
    try:
        yield
    finally:
        _PROCESSES.reset(token)


def this_process() -> Processes:
    """The process that trains here; :data:`ALONE` outside :func:`together`."""
    return _PROCESSES.get()


def weighted_mean(losses: Tensor, weight: Tensor) -> Tensor:
    """Σ w·loss / Σ w of the losses (n,) of this process's rows, divided by its :meth:`Processes.share`."""
    return (losses * weight).sum() / this_process().share(weight.sum())
