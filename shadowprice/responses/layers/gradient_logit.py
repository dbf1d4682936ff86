"""The gradient and intercept model with which S0 analyses sensitivity (eq. 21).

    f(h, r) = sigmoid(softplus(w_g·h + b_g)·r + w_i·h + b_i)

The softplus term is the account's sensitivity to the incentive.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shadowprice.responses.arrays import inverse_softplus, line, sensitivity
from shadowprice.responses.layers.heads import LogitHead
from shadowprice.responses.layers.logit import LogitLayer


class GradientLogitLayer(LogitLayer):
    """A slope and an intercept of the logit for every account, (n, D) → (n, J)."""

    head = LogitHead

    def __init__(self, width: int, levels: NDArray[np.int64]) -> None:
        super().__init__(levels)
        self.slope = nn.Linear(width, 1)
        self.base = nn.Linear(width, 1, bias=False)
        nn.init.normal_(self.slope.weight, std=0.02)

    def forward(self, embedding: Tensor) -> Tensor:
        """Logits (n, J), non-decreasing in the level for any weights."""
        slope = sensitivity(self.slope(embedding), None, axis=1)
        logits: Tensor = line(slope, self.amounts, self.base(embedding)) + self.intercept
        return logits

    @torch.no_grad()
    def set_slope(self, slope: float) -> None:
        """Start from this slope for everyone."""
        self.slope.bias.fill_(inverse_softplus(slope))

    def head_weights(self) -> dict[str, Tensor | None]:
        """Slope and base."""
        return {
            "slope_weight": self.slope.weight,
            "slope_bias": self.slope.bias,
            "base_weight": self.base.weight[0],
            "base_bias": self.intercept[0],
        }
