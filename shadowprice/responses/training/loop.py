"""The training loop of every network: early stop, the best epoch kept, checkpoints, progress."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from shadowprice.checks import require
from shadowprice.progress import ProgressBar
from shadowprice.responses.training.checkpoint import Checkpoint, Progressed, Stateful
from shadowprice.responses.training.config import FitResult, Progress, TrainingConfig
from shadowprice.responses.training.devices import check_device
from shadowprice.responses.training.processes import this_process

Step = TypeVar("Step")

DIVERGED = (
    "the loss of the held-out rows is not a finite number after the first epoch; lower the learning rate, or give "
    "weight to more accounts"
)


@dataclass(frozen=True, kw_only=True)
class BestEpoch:
    """Rule of the epoch that training keeps.

    keep_start    whether the state before the first epoch may be the best
    least_epochs  patience counts from here on; a loss whose weights change until then may stand still
    least_gain    by how much the measure must fall to count as better
    """

    keep_start: bool = False
    least_epochs: int = 0
    least_gain: float = 0.0


def train_epochs(
    module: nn.Module,
    run_epoch: Callable[[int], float],
    measure: Callable[[], float],
    config: TrainingConfig,
    *,
    carried: Sequence[Stateful] = (),
    progress: Progress | None = None,
    best: BestEpoch = BestEpoch(),
) -> FitResult:
    """Run epochs until the measure on held-out rows stops falling, and leave ``module`` at its best epoch.

    Several processes (:func:`~shadowprice.responses.training.processes.together`) start from the weights of the first,
    and stop by the mean of their measures.

    Args:
        module: what is trained, and whose state is kept.
        run_epoch: trains one epoch and returns its training loss.
        measure: on held-out rows, to be small.
        config: epochs, patience, and how often a checkpoint is saved.
        carried: everything beside ``module`` that an epoch changes, such as optimizers and random generators; torch's
            own generator is saved in any case.
        progress: called after every epoch; without it a single process shows how far it is.
        best: which epoch is kept.

    Raises:
        InvalidInput: the measure was a finite number in no epoch. One that is not finite later on ends the training.
    """
    checkpoint = Checkpoint.of(module, config)
    changed = [module, *carried]
    run = checkpoint.load(changed) if checkpoint else None
    here = this_process()
    here.align(module)
    if run is None:
        start = measured(module, measure) if best.keep_start else math.inf
        # No number is smaller than NaN, so no epoch would be better.
        run = Progressed([], start if math.isfinite(start) else math.inf, -1, deepcopy(module.state_dict()))
    saved = time.monotonic()
    # Whoever passes a function shows the progress; other callers would wait without a sign.
    alone = progress is None and here.count == 1
    with ProgressBar(f"train {type(module).__name__}", config.epochs, "epoch", shown=alone) as bar:
        for epoch in range(len(run.history), config.epochs):
            if run.ended or epoch - max(run.best_epoch, best.least_epochs) > config.patience:
                break
            module.train()
            with repeatable():
                loss = run_epoch(epoch)
            held_out = measured(module, measure)
            if not math.isfinite(held_out):
                require(math.isfinite(run.best), "training", DIVERGED)
                break
            run.history.append({"epoch": float(epoch), "train_loss": loss, "validation_loss": held_out})
            if held_out < run.best - best.least_gain:
                run.best, run.best_epoch, run.best_state = held_out, epoch, deepcopy(module.state_dict())
            for tell in (progress or bar.epoch, here.report):
                if tell is not None:
                    tell({**run.history[-1], "epochs": float(config.epochs)})
            if checkpoint is not None and time.monotonic() - saved >= config.save_seconds:
                checkpoint.save(run, changed)
                saved = time.monotonic()
    if checkpoint is not None and not run.ended:
        run.ended = True
        checkpoint.save(run, changed)
    module.load_state_dict(run.best_state)
    module.eval()
    return FitResult(len(run.history), run.best_epoch, run.best, run.history)


@dataclass(frozen=True, eq=False)
class GradientDescent(Generic[Step]):
    """Gradient steps of bounded size that train a module in place; several processes follow their mean gradient.

    module      what is trained, and whose state is kept
    steps       what the gradient steps of an epoch see, as a function of the epoch alone;
                :func:`~shadowprice.responses.training.batches.shuffled` gives rows in a new order
    loss        of one step, in an epoch
    measure     on held-out rows, to be small
    parameters  those of ``module`` by default, or groups of them as an optimizer takes them; the rest of it is left
                alone, bit for bit
    after_step  called after every gradient step, such as the proximal step of a penalty
    carried     what ``loss`` and ``steps`` change beside the module, see :func:`train_epochs`
    places      whether ``loss`` and ``measure`` put what they read on the device; the module is moved here
    """

    module: nn.Module
    steps: Callable[[int], Iterable[Step]]
    loss: Callable[[Step, int], Tensor]
    measure: Callable[[], float]
    _: KW_ONLY
    parameters: Iterable[nn.Parameter] | Iterable[dict[str, Any]] | None = None
    after_step: Callable[[AdamW], None] | None = None
    carried: Sequence[Stateful] = ()
    places: bool = False

    def run(
        self, config: TrainingConfig, *, progress: Progress | None = None, best: BestEpoch = BestEpoch()
    ) -> FitResult:
        """Train, and leave the module at its best epoch; ``config`` has the learning rate, its decay, epochs, ….

        Raises:
            InvalidInput: the device is a GPU, and there is none, or the loss is not written for one.
        """
        cpu_only = "must be cpu: the loss of this model is not written for a GPU"
        require(self.places or config.device == "cpu", "device", cpu_only)
        check_device(config.device)
        # Before the optimizer is made, whose state stands beside the weights.
        self.module.to(config.device)
        trained: list[Any] = list(self.module.parameters() if self.parameters is None else self.parameters)
        # Adam would divide the decay by the size of the gradient: small gradients would take weights to 0 at full rate.
        optimizer = AdamW(trained, lr=config.learning_rate, weight_decay=config.weight_decay)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, config.decay)

        def run_epoch(epoch: int) -> float:
            loss = self._epoch(epoch, optimizer, config)
            schedule.step()
            return this_process().mean(loss)

        carried = [optimizer, schedule, *self.carried]
        outcome = train_epochs(
            self.module, run_epoch, self.measure, config, carried=carried, progress=progress, best=best
        )
        self.module.to("cpu")
        return outcome

    def _epoch(self, epoch: int, optimizer: AdamW, config: TrainingConfig) -> float:
        """Return the mean loss of the steps of an epoch."""
        losses, here = [], this_process()
        stepped = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        if here.count > 1:
            # Their generators diverge by the rows that each has, and a checkpoint holds that of the first alone.
            torch.manual_seed((config.seed * 1_000_003 + epoch) * here.count + here.rank)
        if config.device == "cuda":
            # A checkpoint, and what another process is sent, hold the state of the processor's generator alone.
            torch.cuda.manual_seed(int(torch.randint(1 << 62, ())))
        for step in self.steps(epoch):
            optimizer.zero_grad()
            with torch.autocast(config.device, torch.bfloat16, enabled=config.precision == "bfloat16"):
                value = self.loss(step, epoch)
            value.backward()  # type: ignore[no-untyped-call]
            here.average(stepped)
            # On a processor what foreach looks up takes longer than the loop that it saves.
            nn.utils.clip_grad_norm_(stepped, 5.0, foreach=False)
            optimizer.step()
            if self.after_step is not None:
                self.after_step(optimizer)
            losses.append(float(value.detach()))
        return sum(losses) / len(losses)


@contextmanager
def repeatable() -> Iterator[None]:
    """Add gradients in a fixed order: a seed and a number of threads give the same network in every run."""
    before = torch.are_deterministic_algorithms_enabled()
    # Where torch has no such algorithm, as for some operations on a GPU, it warns and goes on.
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def measured(module: nn.Module, measure: Callable[[], float]) -> float:
    """``measure`` of the module as it serves, its mean over the processes."""
    module.eval()
    with torch.no_grad(), repeatable():
        return this_process().mean(measure())
