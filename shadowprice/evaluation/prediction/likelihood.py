"""The likelihood of current-status data.

What is seen of an account is whether it responded at the level it was given, never the threshold
at which it would have: with cumulative hazard Λ at that level, a response has probability
``1 − exp(−Λ)`` and a refusal ``exp(−Λ)`` (S0, equation 10, with its survival function renamed).
"""

import numpy as np
from numpy.typing import ArrayLike

from shadowprice.evaluation.statistics.metric import Array


def log1mexp(cumulative: ArrayLike) -> Array:
    """``log(1 − exp(−Λ))`` without loss of digits at either end; −inf at Λ = 0.

    Source: Mächler (2012), switching at ln 2.
    """
    hazard = np.asarray(cumulative, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.where(hazard < np.log(2), np.log(-np.expm1(-hazard)), np.log1p(-np.exp(-hazard)))


def derivatives(y: ArrayLike, cumulative: ArrayLike) -> tuple[Array, Array]:
    """Return the first and second derivative in Λ of each row's log-likelihood; the second is never positive.

    The log-likelihood is ``log(1 − exp(−Λ))`` where ``y`` = 1 and ``−Λ`` where ``y`` = 0.
    """
    hazard = np.asarray(cumulative, dtype=np.float64)
    responded = np.asarray(y) != 0
    with np.errstate(divide="ignore", over="ignore"):
        odds = 1 / np.expm1(np.where(responded, hazard, 1.0))
    return np.where(responded, odds, -1.0), np.where(responded, -odds * (1 + odds), 0.0)


def account_offset(response: ArrayLike) -> Array:
    """Offset of each account's hazard by a model, relative to the other accounts: float64 (N,).

    ``response`` (J, N), probabilities in (0, 1). The offset is the mean over levels of ``log Λ``,
    scaled so that ``exp(offset)`` has mean 1; a hazard fitted with it is that of the average account.
    """
    probability = np.clip(np.asarray(response, dtype=np.float64), 1e-12, 1 - 1e-12)
    offset = np.log(-np.log1p(-probability)).mean(axis=0)
    return np.asarray(offset - np.log(np.exp(offset).mean()))
