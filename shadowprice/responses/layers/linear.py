"""Linear response of merchants with a non-negative slope (S0, after Liu et al. 2019).

f(h, r) = softplus(w_g·h + b_g)·r + w_i·h + b_i,   loss = squared error of the responses within limits
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shadowprice.responses.arrays import inverse_softplus, line, softplus
from shadowprice.responses.calibration import mean_shift
from shadowprice.responses.layers.extremes import LimitedLayer
from shadowprice.responses.layers.heads import LinearHead


class LinearLayer(LimitedLayer):
    """Embedding (n, D) → expected response (n, J)."""

    estimator = staticmethod(mean_shift)
    head = LinearHead

    def __init__(self, width: int, levels: NDArray[np.int64]) -> None:
        super().__init__(levels)
        self.slope = nn.Linear(width, 1)
        self.base = nn.Linear(width, 1)

    def forward(self, embedding: Tensor) -> Tensor:
        """Expected response (n, J), non-decreasing in the level for any weights."""
        response: Tensor = line(softplus(self.slope(embedding)), self.amounts, self.base(embedding))
        return response

    @torch.no_grad()
    def start(
        self, level: NDArray[np.int64], response: NDArray[np.float64], weight: NDArray[np.float64] | None = None
    ) -> None:
        """Start from the least-squares line through all rows, its slope at least slightly positive."""
        amount = self.amounts.numpy()[level].astype(np.float64)
        w = np.ones(level.size) if weight is None else weight
        middle, mean = float(np.average(amount, weights=w)), float(np.average(response, weights=w))
        deviation = amount - middle
        slope = max(float((w * deviation) @ response / max(float(w @ deviation**2), 1e-12)), self.least_slope)
        self.slope.bias.fill_(inverse_softplus(slope))
        self.base.bias.fill_(mean - slope * middle)
        self.limits.fit(level, response, mean + slope * (self.amounts.numpy() - middle), w)

    @torch.no_grad()
    def correct(self, correction: float) -> None:
        """Add ``correction`` to the response."""
        self.base.bias.add_(correction)

    def head_weights(self) -> dict[str, Tensor | None]:
        """Slope and base."""
        (slope,), (base,) = self.slope.weight, self.base.weight
        return {
            "slope_weight": slope,
            "slope_bias": self.slope.bias[0],
            "base_weight": base,
            "base_bias": self.base.bias[0],
        }
