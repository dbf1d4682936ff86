"""Base of the layers whose curve is a logistic function of a score."""

from abc import abstractmethod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shadowprice.responses.calibration import logit_shift
from shadowprice.responses.layers.base import ResponseLayer
from shadowprice.responses.weights import means_by_level


class LogitLayer(ResponseLayer):
    """Embedding (n, D) → logits (n, J) with one intercept for all; cross entropy at the assigned level."""

    estimator = staticmethod(logit_shift)

    def __init__(self, levels: NDArray[np.int64]) -> None:
        super().__init__(levels)
        self.intercept = nn.Parameter(torch.zeros(1))

    @abstractmethod
    def set_slope(self, slope: float) -> None:
        """Start from this slope of the logit in the incentive, per ``RATE_SCALE`` minor units, for everyone."""

    def loss(self, embedding: Tensor, level: Tensor, response: Tensor) -> Tensor:
        """(n,) cross entropy of the rows."""
        score = self.at(embedding, level)
        return nn.functional.binary_cross_entropy_with_logits(score, response, reduction="none")

    @torch.no_grad()
    def start(
        self, level: NDArray[np.int64], response: NDArray[np.float64], weight: NDArray[np.float64] | None = None
    ) -> None:
        """Start from the least-squares line through the logits of the levels' mean responses, rising slightly."""
        share, count = means_by_level(level, response, weight, self.levels.size)
        seen = np.flatnonzero(count > 0)
        share, count = share[seen], count[seen]
        logits = np.log(np.clip(share, 0.005, 0.995) / (1.0 - np.clip(share, 0.005, 0.995)))
        amount = self.amounts.numpy()[seen]
        deviation = amount - np.average(amount, weights=count)
        slope = float((count * deviation * logits).sum() / max(float((count * deviation**2).sum()), 1e-12))
        slope = max(slope, self.least_slope)
        self.set_slope(slope)
        self.intercept.fill_(float(np.average(logits - slope * amount, weights=count)))

    @torch.no_grad()
    def correct(self, correction: float) -> None:
        """Add ``correction`` to the logits."""
        self.intercept.add_(correction)
