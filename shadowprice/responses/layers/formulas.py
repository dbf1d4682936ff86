"""Response formulas over torch tensors, which layers train, and numpy arrays, which heads serve."""

from collections.abc import Callable
from typing import Any, cast

from shadowprice.responses.arrays import Array, library, relu, softmax_mean, softplus, unit_length

RATE_SCALE = 100.0
"""Minor units per unit of incentive inside the networks (spec: r_scale)."""

LOG_RATE_RANGE = (-15.0, 8.0)
"""Log hazard rates are clipped to this range."""


def hazard_rate(score: Array) -> Array:
    """η = exp(clip(s, −15, 8)) (S0 eq. 8): hazard per :data:`RATE_SCALE` minor units."""
    xp = library(score)
    rate: Array = xp.exp(xp.clip(score, *LOG_RATE_RANGE))
    return rate


def cumulative_hazard(score: Array, width: Any, base: Array | None, axis: int) -> Array:
    """Λ_j = Λ_0 + Σ_{k≤j} d_k·η_k, S0's integral of the rate over the levels; non-decreasing in j.

    Args:
        score: s_k of each segment.
        width: d_k, length of the segment from level k − 1 to level k.
        base: score of the base mass Λ_0, where 0 is a level.
        axis: of the levels.
    """
    cumulative: Any = library(score).cumsum(hazard_rate(score) * width, axis=axis)
    total: Array = cumulative if base is None else cumulative + hazard_rate(base)
    return total


def redemption(cumulative: Array) -> Array:
    """f_j = 1 − exp(−Λ_j), one less S0's survival function."""
    xp, hazard = library(cumulative), cast(Any, cumulative)
    probability: Array = -xp.expm1(-hazard)
    return probability


def line(slope: Any, amount: Any, base: Array) -> Array:
    """s·r + b: response of merchants, or logit of a logistic demand curve."""
    amounts: Array = slope * amount + base
    return amounts


def sensitivity(score: Array, segment_slope: Any, axis: int) -> Array:
    """Slope s > 0 of each account's curve.

    Σ_k softmax(score)_k·segment_slope_k over K segments along ``axis`` (semi-black-box model); without segments, where
    the score has one entry along ``axis``, softplus(score) (S0 eq. 21).
    """
    return softplus(score) if segment_slope is None else softmax_mean(score, segment_slope, axis)


def two_towers(
    embedding: Any,
    hidden: Callable[[Any], Array],
    out: Callable[[Array], Array],
    levels: Callable[[Array], Array],
    axis: int,
) -> Array:
    """Logits of the cosine of an account's tower and the levels' tower.

    ``hidden`` and ``out`` are the two dense layers of the account's tower, ``levels`` takes a vector of length 1 along
    ``axis`` to its product with each level's vector, scaled and shifted.
    """
    return levels(unit_length(out(relu(hidden(embedding))), axis))
