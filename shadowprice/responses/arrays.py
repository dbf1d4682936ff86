"""Functions and response formulas of numpy arrays and torch tensors alike: layers train by them, and heads serve by
them. Does not load torch.

Each calls its library's own primitive: numpy in float64 for a server, torch with gradients for training. A row of the
result depends on no other row.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Array = TypeVar("Array")
"""A numpy array or a torch tensor."""

RATE_SCALE = 100.0
"""Minor units per unit of incentive inside the networks (spec: r_scale)."""

LOG_RATE_RANGE = (-15.0, 8.0)
"""Log hazard rates are clipped to this range."""


def library(array: Any) -> Any:
    """The module whose functions take ``array``: numpy or torch."""
    if isinstance(array, np.ndarray):
        return np
    import torch

    return torch


def affine(
    embedding: NDArray[np.floating[Any]], weight: NDArray[np.float32], bias: NDArray[np.floating[Any]]
) -> NDArray[np.float64]:
    """(J, N): weight @ embeddingᵀ + bias, summed in an order that does not depend on N.

    A matrix product may add in another order for another N, and a last bit is enough to break a
    tie between accounts that are equal.
    """
    product = np.einsum("jd,nd->jn", weight.astype(np.float64), embedding.astype(np.float64), optimize=False)
    return np.asarray(product + np.asarray(bias, dtype=np.float64)[:, None])


def sigmoid(score: Array) -> Array:
    """1 / (1 + e^−x)."""
    x, xp = _known(score)
    value: Array = 0.5 * (1.0 + np.tanh(0.5 * x)) if xp is np else xp.sigmoid(x)
    return value


def softplus(score: Array) -> Array:
    """log(1 + e^x)."""
    x, xp = _known(score)
    value: Array = np.logaddexp(0.0, x) if xp is np else xp.nn.functional.softplus(x)
    return value


def inverse_softplus(value: float) -> float:
    """x with softplus(x) = ``value`` > 0."""
    return value + math.log(-math.expm1(-value))


def relu(score: Array) -> Array:
    """max(x, 0)."""
    x, xp = _known(score)
    value: Array = np.maximum(x, 0.0) if xp is np else xp.relu(x)
    return value


def softmax_mean(score: Array, value: Any, axis: int) -> Array:
    """Mean of ``value`` (K,) weighted by softmax(score) over the K entries of ``score`` along ``axis``, which stays."""
    x, xp = _known(score)
    mean: Array
    if xp is np:
        share = np.exp(x - x.max(axis=axis, keepdims=True))
        # A matrix product may add in another order for another number of rows.
        total = np.einsum("k,kn->n", value, share if axis == 0 else share.T, optimize=False) / share.sum(axis=axis)
        mean = total[None] if axis == 0 else total[:, None]
    else:
        mean = (xp.softmax(x, dim=axis).movedim(axis, -1) @ value).unsqueeze(axis)
    return mean


def unit_length(vector: Array, axis: int) -> Array:
    """Vectors along ``axis`` divided by their length."""
    x, xp = _known(vector)
    unit: Array
    if xp is np:
        unit = x / np.maximum(np.sqrt((x**2).sum(axis=axis, keepdims=True)), 1e-12)
    else:
        unit = xp.nn.functional.normalize(x, dim=axis)
    return unit


def _known(array: Any) -> tuple[Any, Any]:
    return array, library(array)


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
