"""Interface of a kind of data set: it trains and judges models, and prices a budget for the first time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from operations.evaluate import EvaluateJob
from operations.solve import Solved, SolveJob
from operations.train import TrainJob


class Kind(ABC):
    """Kind of data set. Everything else about a job is the same for all kinds."""

    @abstractmethod
    def train(self, job: TrainJob) -> Mapping[str, float]:
        """Train into ``job.model`` and return the figures of training."""

    @abstractmethod
    def evaluate(self, job: EvaluateJob) -> tuple[bool, Mapping[str, float]]:
        """Judge the model, write the pages, and return whether it may be used, with its figures."""

    @abstractmethod
    def solve(self, job: SolveJob) -> Solved:
        """Price the budget of a campaign that starts with ``job.model``, before the model is registered."""
