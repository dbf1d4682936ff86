"""Cutting responses far from all others, of which a squared error would learn little else.

A response is cut where it lies further from the mean of its level than ``FAR`` standard deviations of the middle half
of the rows (winsorizing: Tukey 1962). The cut takes at most ``MOST_CUT`` of all response, so that a response that is
rarely more than 0 is left as it is.
"""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shadowprice.responses.layers.base import ResponseLayer

FAR = 10.0
"""Standard deviations from the mean of a level to the nearest response that is cut."""
MOST_CUT = 0.05
"""Share of all response that may be cut off."""
QUARTILES = 1.349
"""Distance of the quartiles of a normal distribution, in standard deviations."""


class ResponseLimits(nn.Module):
    """Limits (J,) of the responses that a loss reads; there are none before :meth:`fit`. They are not saved."""

    low: Tensor
    high: Tensor

    def __init__(self, levels: int) -> None:
        super().__init__()
        self.register_buffer("low", torch.full((levels,), -math.inf), persistent=False)
        self.register_buffer("high", torch.full((levels,), math.inf), persistent=False)

    def cut(self, level: Tensor, response: Tensor) -> Tensor:
        """Responses (n,) at the given levels within the limits."""
        return response.clamp(self.low[level], self.high[level])

    @torch.no_grad()
    def fit(
        self,
        level: NDArray[np.int64],
        response: NDArray[np.float64],
        mean: NDArray[np.float64],
        weight: NDArray[np.float64] | None = None,
    ) -> None:
        """Set the limits around the mean (J,) of each level by rows (n,); without weights all count alike."""
        far = farthest(response - mean[level], response, np.ones(level.size) if weight is None else weight)
        for limit, side in ((self.low, -far), (self.high, far)):
            limit.copy_(torch.from_numpy(mean + side))


class LimitedLayer(ResponseLayer):
    """Response layer whose loss is the squared error of the responses within limits, which its start fits."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.limits = ResponseLimits(self.levels.size)

    def cut(self, level: Tensor, response: Tensor) -> Tensor:
        """Responses (n,) within the limits of their levels."""
        return self.limits.cut(level, response)

    def loss(self, embedding: Tensor, level: Tensor, response: Tensor) -> Tensor:
        """(n,) squared error at the assigned level."""
        return (self.at(embedding, level) - self.cut(level, response)) ** 2


def farthest(residual: NDArray[np.float64], response: NDArray[np.float64], weight: NDArray[np.float64]) -> float:
    """Distance from the mean beyond which responses are cut, infinite where the middle half of the rows is alike.

    >>> even = np.linspace(-1.0, 1.0, 101)
    >>> round(farthest(even, even + 3.0, np.ones(101)), 2)
    7.41
    """
    low, high = np.quantile(residual, [0.25, 0.75], weights=weight, method="inverted_cdf")
    far = FAR * float(high - low) / QUARTILES
    distance, allowed = np.abs(residual), MOST_CUT * float(weight @ np.abs(response))
    while 0.0 < far < math.inf and float(weight @ np.maximum(distance - far, 0.0)) > allowed:
        far *= 2.0
    return far or math.inf
