"""Evidence against a range of means that may be read after every day: an e-process."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.metric import Array, as_rows

SHIFTS = (0.1, 0.2, 0.4, 0.8)
"""Alternatives: distances from the range in log odds."""
SMALLEST = 1e-6
"""Distance of all means from 0 and 1, so that no single response is proof."""


def evidence(y: ArrayLike, low: ArrayLike, high: ArrayLike, day: ArrayLike) -> Array:
    """Logarithm (T,) of the evidence, after each day, that the means lie outside a range.

    With a response y in [0, 1], a bound b, an alternative q beyond it and w_k = 1 / (k (k + 1)):

        f(y) = 1 + (q − b) / (b (1 − b)) · (y − b)
        E_t = 1 / (t + 1) + Σ_{k ≤ t} w_k · mean over q of Π_{days k … t} f(y)

    The factor f is the likelihood ratio of q to b where y is 0 or 1. While the mean of each response, given those
    before it, lies in its range, E is a supermartingale that starts at 1. Then P(E_t ≥ 1/α for any t) ≤ α (Ville).
    The sum over k searches for the first day of a change.

    Args:
        y: (N,) responses in [0, 1], in order of time.
        low, high: (N,) or numbers, range of the mean of each response under the null hypothesis.
        day: (N,) whole numbers from 0, not descending; T is the last plus 1. Empty days are allowed.

    Raises:
        InvalidInput: a response or a bound outside [0, 1], ``low`` above ``high``, or days out of order.

    Source: Ramdas, Grünwald, Vovk and Shafer (2023), Game-theoretic statistics and safe anytime-valid inference. O(N).

    Example:
        >>> evidence([0, 1], 0.5, 0.5, [0, 1]).round(3).tolist()
        [0.0, 0.0]
    """
    response = as_rows({"y": y})["y"]
    below, above = (np.broadcast_to(np.asarray(limit_of, dtype=np.float64), response.shape) for limit_of in (low, high))
    when = np.asarray(day)
    InvalidInput.refuse_rows((response < 0) | (response > 1), "must lie between 0 and 1", field="y")
    InvalidInput.refuse_rows(
        ~((below >= 0) & (below <= above) & (above <= 1)), "must be a range in [0, 1]", field="low"
    )
    if (
        when.shape != response.shape
        or not np.issubdtype(when.dtype, np.integer)
        or when[0] < 0
        or (np.diff(when) < 0).any()
    ):
        raise InvalidInput("must be whole numbers from 0 that do not descend, one for each response", field="day")
    days = int(when[-1]) + 1
    gains = np.stack(
        [
            np.bincount(when, _log_factor(response, bound, direction * shift), days)
            for bound, direction in ((above, 1.0), (below, -1.0))
            for shift in SHIFTS
        ]
    )
    return _mixture(np.asarray(gains, dtype=np.float64))


def _log_factor(y: Array, bound: NDArray[np.float64], shift: float) -> Array:
    base = np.clip(bound, SMALLEST, 1.0 - SMALLEST)
    other = special.expit(special.logit(base) + shift)
    return np.asarray(np.log1p((other - base) / (base * (1.0 - base)) * (y - base)))


def _mixture(gains: Array) -> Array:
    """Return log E (T,) from the log factors (M, T) of all alternatives by day."""
    alternatives, days = gains.shape
    log_evidence = np.empty(days)
    wealth = np.full(alternatives, -np.inf)
    for t in range(days):
        wealth = np.logaddexp(wealth, -np.log((t + 1.0) * (t + 2.0))) + gains[:, t]
        log_evidence[t] = np.logaddexp(np.logaddexp.reduce(wealth) - np.log(alternatives), -np.log(t + 2.0))
    return log_evidence
