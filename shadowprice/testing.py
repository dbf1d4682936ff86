"""Assertions about guaranteed properties, for this project's tests and its users'."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def assert_monotone(response: ArrayLike) -> None:
    """A response matrix (J, N) never falls as the level rises."""
    steps = np.diff(np.asarray(response, dtype=np.float64), axis=0)
    assert np.all(steps >= 0), f"the response falls at levels and accounts {np.argwhere(steps < 0)[:3].tolist()}"


def assert_permutation_equivariant(
    function: Callable[[NDArray[np.intp]], NDArray[Any]], size: int, *, seed: int = 0, atol: float = 1e-5
) -> None:
    """``function(order)`` applied to permuted accounts gives the permuted result."""
    order = np.random.default_rng(seed).permutation(size)
    np.testing.assert_allclose(function(order), function(np.arange(size))[order], atol=atol)
