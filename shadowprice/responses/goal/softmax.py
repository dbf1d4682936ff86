"""Softmax policy: levels are drawn with odds exp(score/τ) (S4; DFCL's policy learning and maximum entropy)."""

from __future__ import annotations

from torch import Tensor

from shadowprice.responses.goal.estimator import GradientEstimator


class SoftmaxPolicy(GradientEstimator):
    """m = softmax(s/τ)_t, the optimum of Σ_j p_j s_j + τ·entropy(p); hard as τ → 0. O(n·J)."""

    def __init__(self, width: float = 0.25, *, relative: bool = True) -> None:
        super().__init__(width, relative=relative)

    def matched(self, scores: Tensor, level: Tensor) -> Tensor:
        """Probability of the assigned level."""
        return self._policy(scores).gather(1, level[:, None]).squeeze(1)

    def gradient(self, scores: Tensor, level: Tensor) -> Tensor:
        """p_t·(1[j = t] − p_j) / τ."""
        policy = self._policy(scores)
        own = policy.gather(1, level[:, None])
        gradient = -own * policy
        gradient.scatter_add_(1, level[:, None], own)
        return gradient / self.absolute_width(scores)

    def _policy(self, scores: Tensor) -> Tensor:
        return (scores / self.absolute_width(scores)).softmax(dim=1)
