"""Expected entries of a matrix at the levels that requests are given: chosen by the price, drawn, or held."""

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.problem.solution import pick
from shadowprice.campaign import AnswerShares


def given(
    shares: AnswerShares,
    matrix: NDArray[np.float64],
    level: NDArray[np.intp],
    allowed: NDArray[np.bool_] | None,
    weights: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return (N,): the expected entry of each column, chosen, drawn or held."""
    chosen = shares.chosen * pick(matrix, level)
    if shares.chosen < 1:
        chosen += without_a_price(shares, matrix, allowed, weights)
    return chosen


def without_a_price(
    shares: AnswerShares,
    matrix: NDArray[np.float64],
    allowed: NDArray[np.bool_] | None,
    weights: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return (N,): the weighted mean over the allowed levels of each column, and the lowest, each times its share.

    Args:
        shares: of the requests that are drawn and held.
        matrix: (J, N).
        allowed: (J, N); None: all.
        weights: (J, N), of the levels where one is drawn; or those of one side
            (:meth:`~shadowprice.campaign.Campaign.draw_weights`), whose columns allow no level beyond them.
    """
    expected = np.zeros(matrix.shape[1])
    if allowed is None:
        allowed = np.ones(matrix.shape, dtype=np.bool_)
    if shares.drawn:
        if weights.ndim == 1:
            weights = np.append(weights, np.ones(len(matrix) - weights.size))[:, None]
        total = np.where(allowed, weights * matrix, 0.0).sum(axis=0)
        expected += shares.drawn * total / np.where(allowed, weights, 0.0).sum(axis=0)
    if shares.held:
        expected += shares.held * pick(matrix, allowed.argmax(axis=0))
    return expected
