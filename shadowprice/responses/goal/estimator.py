"""Interface of a gradient estimator: the derivative of a decision with respect to its scores."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from shadowprice.errors import InvalidInput


class GradientEstimator(ABC):
    """Smooths the indicator m_i = 1[argmax_j s_ij = t_i] of a row's own decision.

    A goal is a sum over rows (or a ratio of two), so its gradient with respect to all scores is each row's
    gain ∂goal/∂m_i times ∂m_i/∂s_i: every row is credited with its own terms only. Perturbing all rows at
    once and crediting each with the whole batch's change has the same mean and a variance that grows with
    the number of rows.

    Args:
        width: how far a score is moved, as a share of :func:`spread` of the scores, or absolute.
        relative: whether ``width`` is such a share. Decisions do not change when all scores are scaled.
    """

    def __init__(self, width: float, *, relative: bool = True) -> None:
        if not width > 0:
            raise InvalidInput("must be positive", field="width")
        self.width = width
        self.relative = relative

    @abstractmethod
    def matched(self, scores: Tensor, level: Tensor) -> Tensor:
        """(n,): m_i, or its smoothed version in [0, 1], of scores (n, J) and assigned levels (n,)."""

    @abstractmethod
    def gradient(self, scores: Tensor, level: Tensor) -> Tensor:
        """(n, J): derivative of the smoothed m_i with respect to the row's scores; each row sums to zero."""

    def absolute_width(self, scores: Tensor) -> float:
        """The width in units of the scores."""
        return self.width * (spread(scores) if self.relative else 1.0)


def spread(scores: Tensor) -> float:
    """Root mean square deviation of the scores (n, J) from their row's mean; 1 where they are all equal."""
    deviation = float((scores - scores.mean(dim=1, keepdim=True)).square().mean().sqrt())
    return deviation if deviation > 0 else 1.0


def hard_matched(scores: Tensor, level: Tensor) -> Tensor:
    """(n,): 1 where the assigned level has the highest score (the first one where several tie), else 0."""
    return (scores.argmax(dim=1) == level).to(scores.dtype)


def best_other(scores: Tensor, level: Tensor) -> tuple[Tensor, Tensor]:
    """(n,) score and index of the best level that is not the assigned one; J ≥ 2."""
    others = scores.scatter(1, level[:, None], -torch.inf)
    best = others.max(dim=1)
    return best.values, best.indices
