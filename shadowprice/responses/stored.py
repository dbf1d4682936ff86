"""Curves that are stored online as they are, level by level, and handed back by the head (decision record 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.checks import require
from shadowprice.encoders.base import WIDTH
from shadowprice.responses.layers.heads import StoredHead


def as_embedding(response: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """(n, WIDTH): the curves (J, n), zeros behind the levels."""
    embedding = np.zeros((response.shape[1], WIDTH), dtype=np.float32)
    embedding[:, : response.shape[0]] = response.T
    return embedding


def stored_head(levels: ArrayLike, embedding: NDArray[np.float32]) -> StoredHead:
    """Head that hands stored curves back; unknown accounts get the mean curve."""
    mean = embedding.mean(axis=0, dtype=np.float64).astype(np.float32)
    return StoredHead(levels=np.asarray(levels, dtype=np.int64), default_embedding=mean)


def check_width(levels: Sequence[int], field: str) -> None:
    """Raise :class:`~shadowprice.errors.InvalidInput` where a curve over ``levels`` cannot be stored."""
    count = len(levels)
    require(count <= WIDTH, field, f"is served as a stored curve, of at most {WIDTH} levels, got {count}")
