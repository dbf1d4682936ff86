"""What the layers whose curve is a logistic function of a score have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shadowprice.responses.calibration import logit_shift
from shadowprice.responses.layers.base import ResponseLayer
from shadowprice.responses.layers.heads import RATE_SCALE
from shadowprice.responses.weights import means_by_level


class LogitLayer(ResponseLayer):
    """Embedding (n, D) → logits (n, J) with one intercept for all; cross entropy at the assigned level."""

    def __init__(self, levels: NDArray[np.int64]) -> None:
        super().__init__()
        self.levels = np.asarray(levels, dtype=np.int64)
        self.intercept = nn.Parameter(torch.zeros(1))
        self.amounts: Tensor
        amounts = torch.tensor(self.levels / RATE_SCALE, dtype=torch.get_default_dtype())
        self.register_buffer("amounts", amounts, persistent=False)

    @abstractmethod
    def set_slope(self, slope: float) -> None:
        """Start from this slope of the logit in the incentive, per ``RATE_SCALE`` minor units, for everyone."""

    def loss(self, embedding: Tensor, level: Tensor, response: Tensor) -> Tensor:
        """(n,) cross entropy of the rows."""
        score = self.forward(embedding).gather(1, level[:, None]).squeeze(1)
        return nn.functional.binary_cross_entropy_with_logits(score, response, reduction="none")

    def shrink(self, step: Callable[[nn.Parameter], Tensor]) -> None:
        """No penalty of its own."""

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
        slope = max(slope, 1e-2)
        self.set_slope(slope)
        self.intercept.fill_(float(np.average(logits - slope * amount, weights=count)))

    @torch.no_grad()
    def calibrate(
        self, embedding: Tensor, level: Tensor, response: Tensor, account: Tensor, weight: Tensor | None = None
    ) -> float:
        """Shift all logits to the mean response of held-out rows, and return the shift."""
        score = self(embedding).gather(1, level[:, None]).squeeze(1)
        shift = logit_shift(
            score.numpy(), response.numpy(), account.numpy(), None if weight is None else weight.numpy()
        )
        self.correct(shift)
        return shift

    @torch.no_grad()
    def correct(self, correction: float) -> None:
        """Add ``correction`` to the logits."""
        self.intercept.add_(correction)


def inverse_softplus(value: float) -> float:
    """x with softplus(x) = ``value`` > 0."""
    return float(value + np.log(-np.expm1(-value)))
