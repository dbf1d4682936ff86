"""Training of every network: configuration, loop, order of the rows, checkpoints. Does not load torch."""

from shadowprice.responses.training.config import FitResult, Progress, TrainingConfig

__all__ = ["FitResult", "Progress", "TrainingConfig"]
