"""Log-normal law of the amount of a response, as a part of every response head. Does not load torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from shadowprice.responses.arrays import Array, affine, library, softplus

LEAST_SPREAD, LARGEST_SPREAD = 1e-2, 3.0
"""Bounds of the deviation of a log amount: at 3 the mean is 90 times the median."""


def spread(score: Array, floor: float) -> Array:
    """Standard deviation of the log amount from its score: ``floor`` + softplus(score), within the bounds."""
    value: Array = library(score).clip(cast(Any, softplus(score)) + floor, LEAST_SPREAD, LARGEST_SPREAD)
    return value


@dataclass(frozen=True, eq=False, kw_only=True)
class AmountHead:
    """log amount ~ N(w_j·h + b_j, spread(u·h + c)) given a response at level j; free in the level, rising or falling.

    amount_weight w (J, D), amount_bias b (J,), spread_weight u (D,), spread_bias c; None where a model has learned no
    amounts. Then all responses of the side have the mean and the deviation ``side_amounts``, float32 (2,), of the log
    amount; None where amounts are not modeled. O(N·J·D). ``guards``: name → (J,), expected second outcome of a request
    of the side at each level.
    """

    levels: NDArray[np.int64]
    side_amounts: NDArray[np.float32] | None = None
    amount_weight: NDArray[np.float32] | None = None
    amount_bias: NDArray[np.float32] | None = None
    spread_weight: NDArray[np.float32] | None = None
    spread_bias: float | None = None
    spread_floor: float | None = None
    guards: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    def amounts(self, embedding: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """float32 (2, J, N): mean and standard deviation of the log amount of a response, in minor units."""
        if self.amount_weight is None or self.amount_bias is None or self.spread_weight is None:
            if self.side_amounts is None:
                return None
            return np.broadcast_to(self.side_amounts[:, None, None], (2, self.levels.size, len(embedding)))
        mean = affine(embedding, self.amount_weight, self.amount_bias)
        score: NDArray[Any] = affine(embedding, self.spread_weight[None], np.array([self.spread_bias]))
        deviation = np.broadcast_to(spread(score, self.spread_floor or 0.0), mean.shape)
        return np.stack([mean, deviation]).astype(np.float32)
