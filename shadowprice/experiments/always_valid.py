"""Intervals of a growing experiment that hold at all interim analyses at once."""

import numpy as np
from numpy.typing import ArrayLike

from shadowprice.checks import require
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.policy.confidence_sequence import ConfidenceSequence

PLANNED = 14
"""Interim analyses after which the interval is narrowest in comparison, where the caller names no number."""


def always_valid(
    value: ArrayLike, error: ArrayLike, *, level: float = 0.95, planned: int = PLANNED, constant: bool = True
) -> ConfidenceSequence:
    """Asymptotic confidence sequence of an effect from its estimates at T interim analyses.

    With standard errors s_t, information t = s_1² / s_t² and α = 1 − level:

        value_t ± s_t · √((1 + 1/(tρ²)) · log((tρ² + 1)/α²)),   ρ² = (−2 log α + log(1 − 2 log α)) / planned

    The interval covers the effect at *all* analyses together with the probability ``level``, as the units grow; it may
    be read at any time, and the trial stopped by it. Where the effect is constant the limits are the intersection up
    to then.

    Args:
        value, error: (T,) estimates from all rows up to each analysis, and their standard errors, in order; an analysis
            without a finite error above 0 leaves the interval as it was, at first infinite.
        level: probability of covering the effect at all analyses together.
        planned: analyses at whose time, at equal traffic, the interval is narrowest in comparison; fix it before.
        constant: whether the effect is the same at all analyses. A mean over a growing time may differ from day to day;
            each interval then holds for the mean up to its analysis, and an earlier one does not bound it.

    It is the interval of a mixture sequential probability ratio test with a normal mixture.

    Source: Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024), Time-uniform central limit theory and asymptotic
    confidence sequences, theorem 2.2, its Lyapunov form for means that vary, and appendix B.2. O(T).

    Example:
        >>> always_valid([1.0, 1.0], [0.4, 0.2]).low.round(2).tolist()
        [-0.69, 0.36]
    """
    estimate, spread = np.asarray(value, dtype=np.float64), np.asarray(error, dtype=np.float64)
    if estimate.ndim != 1 or estimate.shape != spread.shape or not estimate.size:
        raise InvalidInput(f"must have one entry per analysis, got {estimate.shape} and {spread.shape}", field="error")
    require(0 < level < 1, "level", "must lie between 0 and 1")
    require(planned >= 1, "planned", "must be at least 1")
    alpha = 1.0 - level
    known = np.isfinite(estimate) & np.isfinite(spread) & (spread > 0)
    low, high = np.full(estimate.size, -np.inf), np.full(estimate.size, np.inf)
    if known.any():
        seen = spread[known]
        rho = (-2.0 * np.log(alpha) + np.log1p(-2.0 * np.log(alpha))) / planned
        information = (seen[0] / seen) ** 2 * rho
        half = seen * np.sqrt((1.0 + 1.0 / information) * np.log((information + 1.0) / alpha**2))
        low[known], high[known] = estimate[known] - half, estimate[known] + half
    if constant:
        return ConfidenceSequence(estimate, np.maximum.accumulate(low), np.minimum.accumulate(high), level)
    # An analysis without an error keeps the interval of the one before.
    newest = np.maximum.accumulate(np.where(known, np.arange(estimate.size), 0))
    return ConfidenceSequence(estimate, low[newest], high[newest], level)
