"""The semi-black-box model (Zhao et al. 2019), a baseline of S0: a logistic demand curve in a network.

    f(h, r) = sigmoid(s(h)·r + w_i·h + b),   s(h) = Σ_k softmax(V·h + c)_k · softplus(a_k)

The network gives every account its intercept; the sensitivity belongs to segments of accounts, which are learned with
it. With ``slope="account"`` every account has a sensitivity of its own, as in S0's equation 21.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shadowprice.checks import require, require_one_of
from shadowprice.responses.arrays import inverse_softplus, line, sensitivity, softplus
from shadowprice.responses.layers.heads import LogitHead
from shadowprice.responses.layers.logit import LogitLayer

SLOPES = ("segment", "account")


class SbbmLayer(LogitLayer):
    """Embedding (n, D) → logits (n, J).

    Options:
        slope: ``segment`` or ``account``, whose sensitivity it is.
        segments: how many segments.
    """

    head = LogitHead

    def __init__(self, width: int, levels: NDArray[np.int64], *, slope: str = "segment", segments: int = 8) -> None:
        super().__init__(levels)
        require_one_of(slope, SLOPES, "slope")
        require(segments > 0, "segments", f"must be at least 1, got {segments}")
        by_segment = slope == "segment"
        self.gate = nn.Linear(width, segments if by_segment else 1)
        self.segment_slope = nn.Parameter(torch.zeros(segments)) if by_segment else None
        self.base = nn.Linear(width, 1, bias=False)

    def slope(self, embedding: Tensor) -> Tensor:
        """Sensitivity (n, 1) of the logit, per ``RATE_SCALE`` minor units."""
        slope: Tensor = sensitivity(self.gate(embedding), self._segments(), axis=1)
        return slope

    def forward(self, embedding: Tensor) -> Tensor:
        """Logits (n, J), non-decreasing in the level for any weights."""
        logits: Tensor = line(self.slope(embedding), self.amounts, self.base(embedding)) + self.intercept
        return logits

    @torch.no_grad()
    def set_slope(self, slope: float) -> None:
        """Start around this slope: segments from a third of it to three times, so that they differ."""
        if self.segment_slope is None:
            self.gate.bias.fill_(inverse_softplus(slope))
            return
        spread = np.geomspace(1 / 3, 3, self.segment_slope.numel()) if self.segment_slope.numel() > 1 else np.ones(1)
        spread /= spread.mean()
        start = torch.tensor([inverse_softplus(float(slope * gap)) for gap in spread])
        self.segment_slope.copy_(start)

    def head_weights(self) -> dict[str, Tensor | None]:
        """Gate, slopes of the segments, and base."""
        return {
            "slope_weight": self.gate.weight,
            "slope_bias": self.gate.bias,
            "segment_slope": self._segments(),
            "base_weight": self.base.weight[0],
            "base_bias": self.intercept[0],
        }

    def _segments(self) -> Tensor | None:
        return None if self.segment_slope is None else softplus(self.segment_slope)
