"""Two towers with a cost term (S0's baseline DSSM-c, which the paper names and does not define).

    f(h, r_j) = sigmoid(κ·cos(u(h), v(r_j)) + softplus(a)·r_j + b)

u is the account's tower, v the level's (Huang et al. 2013, two dense layers each), κ > 0 a learned scale. The
non-negative slope in r is our reading of "with cost constraint". The cosine may fall from one level to the next, so
the curve need not be monotone.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shadowprice.responses.arrays import inverse_softplus, line, softplus, two_towers, unit_length
from shadowprice.responses.layers.heads import DssmHead
from shadowprice.responses.layers.logit import LogitLayer

TOWER = 32
"""Width of the towers' outputs and hidden layers."""


class DssmLayer(LogitLayer):
    """Embedding (n, D) → logits (n, J)."""

    head = DssmHead

    def __init__(self, width: int, levels: NDArray[np.int64]) -> None:
        super().__init__(levels)
        self.hidden = nn.Linear(width, TOWER)
        self.out = nn.Linear(TOWER, TOWER)
        self.level = nn.Sequential(nn.Linear(1, TOWER), nn.ReLU(), nn.Linear(TOWER, TOWER))
        self.log_scale = nn.Parameter(torch.full((1,), float(np.log(5.0))))
        self.raw_slope = nn.Parameter(torch.zeros(1))

    def levels_tower(self) -> Tensor:
        """v (J, TOWER), of length 1."""
        last = self.amounts[-1:].clamp(min=1e-9)
        tower: Tensor = unit_length(self.level((self.amounts / last)[:, None]), axis=1)
        return tower

    def forward(self, embedding: Tensor) -> Tensor:
        """Logits (n, J)."""

        def levels(tower: Tensor) -> Tensor:
            return tower @ self.levels_tower().T * self.log_scale.exp() + self.offsets()

        logits: Tensor = two_towers(embedding, self.hidden, self.out, levels, axis=1)
        return logits

    def offsets(self) -> Tensor:
        """(J,): what does not depend on the account."""
        return line(softplus(self.raw_slope), self.amounts, self.intercept)

    @torch.no_grad()
    def set_slope(self, slope: float) -> None:
        """Start from this slope."""
        self.raw_slope.fill_(inverse_softplus(slope))

    def head_weights(self) -> dict[str, Tensor | None]:
        """Both layers of the account's tower, and the levels' vectors with their scale."""
        return {
            "hidden_weight": self.hidden.weight,
            "hidden_bias": self.hidden.bias,
            "out_weight": self.out.weight,
            "out_bias": self.out.bias,
            "level_weight": self.levels_tower() * self.log_scale.exp(),
            "level_bias": self.offsets(),
        }
