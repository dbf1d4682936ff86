"""Perturbed argmax: the decision under Gaussian noise, in closed form up to one integral (S4; Berthet et al. 2020)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from shadowprice.errors import InvalidInput
from shadowprice.responses.goal.estimator import GradientEstimator

NODES = 12
"""Gauss–Hermite nodes: the integrands are products of at most J normal distribution functions."""


class PerturbedArgmax(GradientEstimator):
    """P(argmax_j s_j + σ·e_j = t) with e ~ N(0, I).

    Given the noise u of the assigned level the others lose independently:

        P = ∫ φ(u) Π_{j≠t} Φ((s_t − s_j)/σ + u) du,

    a one-dimensional integral for any J, taken by Gauss–Hermite quadrature. For J = 2 it is
    Φ((s_t − s_j)/(σ√2)). O(n·J·nodes).

    Args:
        width: σ.
        nodes: of the quadrature.
    """

    def __init__(self, width: float = 0.5, *, relative: bool = True, nodes: int = NODES) -> None:
        super().__init__(width, relative=relative)
        if nodes < 1:
            raise InvalidInput("must be at least 1", field="nodes")
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
