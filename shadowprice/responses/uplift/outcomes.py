"""The outcomes a network predicts at every level: value and cost of a request."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shadowprice.documents import Plain


@dataclass(frozen=True)
class OutcomeScale(Plain):
    """Scale of one outcome in the network.

    binary     0 or 1: the network gives a logit and the loss is the log-loss; otherwise an amount, whose
               loss is the squared error in units of ``scale``
    location   of an amount; scale, of an amount
    """

    binary: bool
    location: float = 0.0
    scale: float = 1.0

    @classmethod
    def fit(cls, column: NDArray[np.float64]) -> OutcomeScale:
        """The kind and the scale of an outcome (n,) from its training rows."""
        if np.isin(column, (0.0, 1.0)).all():
            return cls(binary=True)
        deviation = float(column.std())
        return cls(False, float(column.mean()), deviation if deviation > 0 else 1.0)

    def expected(self, raw: Tensor) -> Tensor:
        """Return the outcome that an output of the network stands for, in its own units."""
        return raw.sigmoid() if self.binary else self.location + self.scale * raw

    def loss(self, raw: Tensor, target: Tensor) -> Tensor:
        """Loss of each output against a target in units of the outcome; a target in (0, 1) is a soft label."""
        if self.binary:
            return torch.nn.functional.binary_cross_entropy_with_logits(raw, target, reduction="none")
        return 0.5 * (raw - (target - self.location) / self.scale).square()

    def link(self, mean: NDArray[np.float64]) -> NDArray[np.float64]:
        """The network's output at which the expected outcome is ``mean``."""
        if self.binary:
            sure = np.clip(mean, 1e-4, 1 - 1e-4)
            return np.asarray(np.log(sure / (1 - sure)))
        return np.asarray((mean - self.location) / self.scale)

    def shift(self, raw: Tensor, mean: Tensor, share: Tensor) -> Tensor:
        """Return the shift of outputs (n,) whose mean, weighted by ``share`` (n,) of sum 1, is then ``mean``."""
        if not self.binary:
            return (mean - self.location) / self.scale - (share * raw).sum()
        low, high = raw.new_tensor(-20.0), raw.new_tensor(20.0)
        for _ in range(50):
            middle = (low + high) / 2
            above = (share * (raw + middle).sigmoid()).sum() > mean
            low, high = torch.where(above, low, middle), torch.where(above, middle, high)
        # Where nobody or everybody responded there is no finite shift.
        return (low + high) / 2 if 0 < float(mean) < 1 else raw.new_zeros(())
