"""Natural evolution strategies: antithetic Gaussian perturbations of the scores (S4; Wierstra et al. 2014)."""

from __future__ import annotations

import torch
from torch import Tensor

from shadowprice.errors import InvalidInput
from shadowprice.responses.goal.estimator import GradientEstimator, hard_matched


class EvolutionStrategies(GradientEstimator):
    """∂m/∂s = mean_k (m(s + σ·e_k) − m(s − σ·e_k))·e_k / 2σ with e_k ~ N(0, I), one draw per row and direction.

    Unbiased for the gradient of the decision under Gaussian noise of standard deviation σ. O(n·J·directions).

    Args:
        width: σ.
        directions: pairs of perturbations per row.
        seed: of the draws; two estimators of one seed draw the same.
    """

    def __init__(self, width: float = 0.5, *, relative: bool = True, directions: int = 16, seed: int = 0) -> None:
        super().__init__(width, relative=relative)
        if directions < 1:
            raise InvalidInput("must be at least 1", field="directions")
        self.directions = directions
        self._random = torch.Generator().manual_seed(seed)

    def matched(self, scores: Tensor, level: Tensor) -> Tensor:
        """The hard indicator."""
        return hard_matched(scores, level)

    def gradient(self, scores: Tensor, level: Tensor) -> Tensor:
        """Mean over the directions."""
        sigma = self.absolute_width(scores)
        total = torch.zeros_like(scores)
        for _ in range(self.directions):
            noise = torch.randn(scores.shape, generator=self._random, dtype=scores.dtype)
            change = hard_matched(scores + sigma * noise, level) - hard_matched(scores - sigma * noise, level)
            total += change[:, None] * noise
        gradient = total / (2 * sigma * self.directions)
        # The smoothed decision does not change when a row's scores are shifted, so its gradient sums to
        # zero; taking the mean out only removes noise.
        return gradient - gradient.mean(dim=1, keepdim=True)
