"""Configuration and result of a training run."""

from collections.abc import Callable
from dataclasses import dataclass

from shadowprice.checks import require_one_of

PRECISIONS = ("float32", "bfloat16")
DEVICES = ("cpu", "cuda")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Configuration of a training run.

    learning_rate  of Adam at the start
    decay          factor on the learning rate after every epoch (S0: exponential, 0.95; closer to 1
                   by default because an epoch is one step)
    epochs         at most; an epoch sees every row once
    patience       epochs without a better validation loss before stopping
    batch_rows     rows of a gradient step; 0 leaves them to the model. A joint network chooses them by the size of its
                   graph and does not read this
    weight_decay   L2, decoupled
    seed           of initialization and dropout
    stamp          names recipe and data, so that a checkpoint of others is not resumed
    precision      of the products of a gradient step: float32, or bfloat16, which keeps weights, sums along ties and
                   held-out losses in float32
    device         of a gradient step: cpu, or cuda for a GPU
    save_seconds   seconds of training between checkpoints; 0 saves after every epoch
    """

    learning_rate: float = 2e-3
    decay: float = 0.995
    epochs: int = 400
    patience: int = 40
    batch_rows: int = 0
    weight_decay: float = 1e-3
    seed: int = 0
    stamp: str = ""
    precision: str = "float32"
    device: str = "cpu"
    save_seconds: float = 60.0

    def __post_init__(self) -> None:
        require_one_of(self.precision, PRECISIONS, "precision")
        require_one_of(self.device, DEVICES, "device")


@dataclass(frozen=True)
class FitResult:
    """Epochs run, the best one, and the losses by epoch."""

    epochs: int
    best_epoch: int
    validation_loss: float
    history: list[dict[str, float]]


Progress = Callable[[dict[str, float]], None]
"""Function called after every epoch with epoch, epochs (at most), train_loss and validation_loss."""
