"""Improved finite difference: what flipping one row's decision changes (S4; DFCL, Zhou et al., KDD 2024)."""

from __future__ import annotations

import torch
from torch import Tensor

from shadowprice.responses.goal.estimator import GradientEstimator, best_other, hard_matched


class FlipDifference(GradientEstimator):
    """A row flips when the gap between its assigned level and the best other one changes sign.

    Within a gap of h the flip is charged to a move of length h: ∂m/∂s = ±1/h on the two levels that trade
    places; rows farther than h from flipping get nothing. This is the difference quotient whose length is
    bounded below, so that a row at a tie does not outweigh all others. O(n·J).
    """

    def __init__(self, width: float = 0.5, *, relative: bool = True) -> None:
        super().__init__(width, relative=relative)

    def matched(self, scores: Tensor, level: Tensor) -> Tensor:
        """The hard indicator."""
        return hard_matched(scores, level)

    def gradient(self, scores: Tensor, level: Tensor) -> Tensor:
        """±1/h near a flip, else 0."""
        h = self.absolute_width(scores)
        other, index = best_other(scores, level)
        own = scores.gather(1, level[:, None]).squeeze(1)
        step = ((own - other).abs() < h).to(scores.dtype) / h
        gradient = torch.zeros_like(scores)
        gradient.scatter_(1, level[:, None], step[:, None])
        return gradient.scatter_(1, index[:, None], -step[:, None])
