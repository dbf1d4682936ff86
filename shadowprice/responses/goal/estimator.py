"""Gradient estimators: the derivative of a decision with respect to its scores.

A new one is a class here and an entry in ``ESTIMATORS``.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from shadowprice.checks import require
from shadowprice.errors import NotFound


class GradientEstimator(ABC):
    """Smooths the indicator m_i = 1[argmax_j s_ij = t_i] of a row's own decision.

    A goal is a sum over rows (or a ratio of two), so its gradient is each row's gain ∂goal/∂m_i times ∂m_i/∂s_i.

    Args:
        width: how far a score is moved, as a share of :func:`spread` of the scores, or absolute.
        relative: whether ``width`` is such a share. Decisions do not change when all scores are scaled.
    """

    WIDTH: ClassVar[float] = 0.5

    def __init__(self, width: float | None = None, *, relative: bool = True) -> None:
        self.width = self.WIDTH if width is None else width
        require(self.width > 0, "width", "must be positive")
        self.relative = relative

    def matched(self, scores: Tensor, level: Tensor) -> Tensor:
        """(n,): m_i, or its smoothed version in [0, 1], of scores (n, J) and assigned levels (n,)."""
        return hard_matched(scores, level)

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


class EvolutionStrategies(GradientEstimator):
    """Natural evolution strategies (S4; Wierstra et al. 2014).

    ∂m/∂s = mean_k (m(s + σ·e_k) − m(s − σ·e_k))·e_k / 2σ with e_k ~ N(0, I), one draw per row and direction.

    Unbiased for the gradient of the decision under Gaussian noise of standard deviation σ. O(n·J·directions).

    Args:
        width: σ.
        directions: pairs of perturbations per row.
        seed: of the draws; two estimators of one seed draw the same.
    """

    def __init__(
        self, width: float | None = None, *, relative: bool = True, directions: int = 16, seed: int = 0
    ) -> None:
        super().__init__(width, relative=relative)
        require(directions > 0, "directions", "must be at least 1")
        self.directions = directions
        self._random = torch.Generator().manual_seed(seed)

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


class FlipDifference(GradientEstimator):
    """Improved finite difference (S4; DFCL, Zhou et al., KDD 2024): what flipping one row's decision changes.

    A row flips when the gap between its assigned level and the best other one changes sign.

    Within a gap of h the flip is charged to a move of length h: ∂m/∂s = ±1/h on the two levels that trade places; rows
    farther than h from flipping get nothing. O(n·J).
    """

    def gradient(self, scores: Tensor, level: Tensor) -> Tensor:
        """±1/h near a flip, else 0."""
        h = self.absolute_width(scores)
        other, index = best_other(scores, level)
        own = scores.gather(1, level[:, None]).squeeze(1)
        step = ((own - other).abs() < h).to(scores.dtype) / h
        gradient = torch.zeros_like(scores)
        gradient.scatter_(1, level[:, None], step[:, None])
        return gradient.scatter_(1, index[:, None], -step[:, None])


class SoftmaxPolicy(GradientEstimator):
    """Levels are drawn with odds exp(score/τ) (S4; DFCL's policy learning and maximum entropy).

    m = softmax(s/τ)_t, the optimum of Σ_j p_j s_j + τ·entropy(p); hard as τ → 0. O(n·J).
    """

    WIDTH = 0.25

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


class PerturbedArgmax(GradientEstimator):
    """Decision under Gaussian noise (S4; Berthet et al. 2020), in closed form up to one integral.

    P(argmax_j s_j + σ·e_j = t) with e ~ N(0, I).

    Given the noise u of the assigned level the others lose independently:

        P = ∫ φ(u) Π_{j≠t} Φ((s_t − s_j)/σ + u) du,

    a one-dimensional integral for any J, taken by Gauss–Hermite quadrature. For J = 2 it is
    Φ((s_t − s_j)/(σ√2)). O(n·J·nodes).

    Args:
        width: σ.
        nodes: of the quadrature, whose integrands are products of at most J normal distribution functions.
    """

    def __init__(self, width: float | None = None, *, relative: bool = True, nodes: int = 12) -> None:
        super().__init__(width, relative=relative)
        require(nodes > 0, "nodes", "must be at least 1")
        position, weight = np.polynomial.hermite_e.hermegauss(nodes)
        self._position = position.tolist()
        self._weight = (weight / weight.sum()).tolist()

    def matched(self, scores: Tensor, level: Tensor) -> Tensor:
        """Probability of the assigned level under the noise."""
        return self._integrate(scores, level)[0]

    def gradient(self, scores: Tensor, level: Tensor) -> Tensor:
        """Derivative of that probability."""
        return self._integrate(scores, level)[1]

    def _integrate(self, scores: Tensor, level: Tensor) -> tuple[Tensor, Tensor]:
        if scores.shape[1] == 2:
            return self._two_levels(scores, level)
        sigma = self.absolute_width(scores)
        index = level[:, None]
        lead = (scores.gather(1, index) - scores) / sigma
        chance = scores.new_zeros(scores.shape[0])
        gradient = torch.zeros_like(scores)
        for position, weight in zip(self._position, self._weight, strict=True):
            # The factor of the assigned level itself is 1, and it has no derivative.
            log_beaten = torch.special.log_ndtr(lead + position).scatter(1, index, 0.0)
            won = log_beaten.sum(dim=1, keepdim=True).exp() * weight
            chance += won.squeeze(1)
            density = torch.exp(-0.5 * (lead + position).square() - log_beaten) / np.sqrt(2 * np.pi)
            gradient -= (won * density / sigma).scatter(1, index, 0.0)
        return chance, gradient.scatter(1, index, -gradient.sum(dim=1, keepdim=True))

    def _two_levels(self, scores: Tensor, level: Tensor) -> tuple[Tensor, Tensor]:
        scale = self.absolute_width(scores) * float(np.sqrt(2.0))
        own = scores.gather(1, level[:, None])
        lead = (2 * own.squeeze(1) - scores.sum(dim=1)) / scale
        slope = torch.exp(-0.5 * lead.square()) / (scale * float(np.sqrt(2 * np.pi)))
        gradient = (-slope)[:, None].expand_as(scores).scatter(1, level[:, None], slope[:, None])
        return torch.special.ndtr(lead), gradient


ESTIMATORS: Mapping[str, type[GradientEstimator]] = {
    "nes": EvolutionStrategies,
    "ifd": FlipDifference,
    "softmax": SoftmaxPolicy,
    "perturbed": PerturbedArgmax,
}


def estimator_names() -> list[str]:
    """Names of all registered gradient estimators."""
    return sorted(ESTIMATORS)


def make_estimator(name: str, **options: Any) -> GradientEstimator:
    """Build the gradient estimator called ``name``.

    Raises:
        NotFound: no estimator of that name.
    """
    if name not in ESTIMATORS:
        raise NotFound(f"gradient estimator {name!r} is unknown; choose one of {estimator_names()}")
    return ESTIMATORS[name](**options)
