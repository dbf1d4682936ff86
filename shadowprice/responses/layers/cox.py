"""Proportional hazards (S0's baseline Cox): one weight shared by all segments, a free baseline rate in each.

η_k = exp(b_k)·exp(w·h)
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shadowprice.responses.layers.hazard import PiecewiseHazardLayer


class CoxLayer(PiecewiseHazardLayer):
    """Embedding (n, D) → cumulative hazard (n, J) that factorises: Λ_j = Λ⁰_j·exp(w·h), base mass included."""

    def __init__(self, width: int, levels: NDArray[np.int64]) -> None:
        super().__init__(levels)
        self.shared = nn.Parameter(torch.zeros(width))
        nn.init.normal_(self.shared, std=0.05)

    @property
    def weight(self) -> Tensor:
        """(J, D), the same in every row."""
        return self.shared.expand(self.levels.size, -1)

    @property
    def base_weight(self) -> Tensor:
        """(D,)."""
        return self.shared
