"""Functions of numpy arrays and torch tensors alike, so that a formula is written once. Does not load torch.

Each calls its library's own primitive: numpy in float64 for a server, torch with gradients for training. A row of the
result depends on no other row.
"""

import math
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = TypeVar("Array")
"""A numpy array or a torch tensor."""


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
