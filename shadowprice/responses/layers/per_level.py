"""A score of its own for each level: responses to offers that have no order.

    s_j = (w + d_j)·h + b_j,   f_j = sigmoid(s_j) of customers, s_j of merchants

The deviations d_j of the levels have an L1 penalty, so that accounts differ in what they like only where the rows show
it.
"""

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shadowprice.responses.calibration import logit_shift, mean_shift
from shadowprice.responses.layers.base import ResponseLayer
from shadowprice.responses.layers.extremes import LimitedLayer
from shadowprice.responses.layers.hazard import soft_threshold
from shadowprice.responses.layers.heads import Head, PerLevelHead
from shadowprice.responses.weights import means_by_level

DEVIATION = 3e-4
"""Weight of the penalty."""


class PerLevelLayer(ResponseLayer):
    """Embedding (n, D) → logits (n, J), in any order of the levels; cross entropy at the assigned level."""

    ordered = False
    estimator: ClassVar[Callable[..., float]] = staticmethod(logit_shift)
    head: ClassVar[Callable[..., Head]] = staticmethod(partial(PerLevelHead, probability=True))

    def __init__(self, width: int, levels: NDArray[np.int64]) -> None:
        super().__init__(levels)
        self.shared = nn.Parameter(torch.zeros(width))
        self.deviation = nn.Parameter(torch.zeros(self.levels.size, width))
        self.bias = nn.Parameter(torch.zeros(self.levels.size))
        nn.init.normal_(self.shared, std=0.05)
        nn.init.normal_(self.deviation, std=0.01)

    def forward(self, embedding: Tensor) -> Tensor:
        """Scores (n, J)."""
        return embedding @ (self.shared + self.deviation).T + self.bias

    def loss(self, embedding: Tensor, level: Tensor, response: Tensor) -> Tensor:
        """(n,) cross entropy of the rows."""
        score = self.at(embedding, level)
        return nn.functional.binary_cross_entropy_with_logits(score, response, reduction="none")

    @torch.no_grad()
    def shrink(self, step: Callable[[nn.Parameter], Tensor]) -> None:
        """Proximal step of the penalty of the deviations."""
        self.deviation.copy_(soft_threshold(self.deviation, step(self.deviation) * DEVIATION))

    @torch.no_grad()
    def start(
        self, level: NDArray[np.int64], response: NDArray[np.float64], weight: NDArray[np.float64] | None = None
    ) -> None:
        """Start every level at its mean, one without rows at that of all."""
        share, count = means_by_level(level, response, weight, self.levels.size)
        share = np.where(count > 0, np.nan_to_num(share), np.average(np.nan_to_num(share), weights=count))
        self.bias.copy_(torch.from_numpy(self.score(share)))

    def score(self, mean: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores (J,) of mean responses."""
        clipped = np.clip(mean, 0.005, 0.995)
        return np.asarray(np.log(clipped / (1.0 - clipped)))

    @torch.no_grad()
    def correct(self, correction: float) -> None:
        """Add ``correction`` to the scores."""
        self.bias.add_(correction)

    def head_weights(self) -> dict[str, Tensor | None]:
        """Weights and intercepts of the levels."""
        return {"weight": self.shared + self.deviation, "bias": self.bias}


class PerLevelRatioLayer(LimitedLayer, PerLevelLayer):
    """Embedding (n, D) → expected responses (n, J), in any order of the levels; squared error within limits."""

    estimator = staticmethod(mean_shift)
    head = staticmethod(partial(PerLevelHead, probability=False))

    @torch.no_grad()
    def start(
        self, level: NDArray[np.int64], response: NDArray[np.float64], weight: NDArray[np.float64] | None = None
    ) -> None:
        """Start as the base does, with limits around the means."""
        super().start(level, response, weight)
        self.limits.fit(level, response, self.bias.numpy().astype(np.float64), weight)

    def score(self, mean: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mean itself."""
        return mean
