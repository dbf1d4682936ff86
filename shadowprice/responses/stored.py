"""Curves that are stored online as they are, level by level, and handed back by the head (decision record 5)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.checks import require
from shadowprice.encoders.base import WIDTH
from shadowprice.responses.layers.heads import StoredHead


def as_embedding(
    response: NDArray[np.floating[Any]], amounts: NDArray[np.floating[Any]] | None = None
) -> NDArray[np.float32]:
    """(n, WIDTH): the curves (J, n), behind them the mean log amount of each level and the score of the deviation.

    ``amounts`` (2, J, n) are those of :attr:`Curves.amounts`, with one deviation for all levels; the rest is zeros.
    """
    levels, accounts = response.shape
    embedding = np.zeros((accounts, WIDTH), dtype=np.float32)
    embedding[:, :levels] = response.T
    if amounts is not None:
        embedding[:, levels : 2 * levels] = amounts[0].T
        deviation = amounts[1, 0].astype(np.float64)
        embedding[:, 2 * levels] = deviation + np.log(-np.expm1(-deviation))
    return embedding


def stored_head(levels: ArrayLike, embedding: NDArray[np.float32], *, amounts: bool = False) -> StoredHead:
    """Head that hands stored curves back, with their amounts where these are stored too.

    Unknown accounts get the mean curve.
    """
    own = np.asarray(levels, dtype=np.int64)
    mean = embedding.mean(axis=0, dtype=np.float64).astype(np.float32)
    if not amounts:
        return StoredHead(levels=own, default_embedding=mean)
    place = np.eye(WIDTH, dtype=np.float32)[own.size :]
    return StoredHead(
        levels=own,
        default_embedding=mean,
        amount_weight=place[: own.size],
        amount_bias=np.zeros(own.size, dtype=np.float32),
        spread_weight=place[own.size],
        spread_bias=0.0,
        spread_floor=0.0,
    )


def check_width(levels: Sequence[int], field: str, *, amounts: bool = False) -> None:
    """Raise :class:`~shadowprice.errors.InvalidInput` where a curve over ``levels`` cannot be stored."""
    count, most = len(levels), (WIDTH - 1) // 2 if amounts else WIDTH
    require(count <= most, field, f"is served as a stored curve, of at most {most} levels, got {count}")
