"""Combination of estimates from several windows of time that need not agree (random effects)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from shadowprice.checks import require
from shadowprice.errors import InvalidInput

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RandomEffects:
    """Mean effect over windows, with the disagreement of the windows in its error.

    value, standard_error  the mean and its error
    low, high, level       t interval with ``degrees`` degrees of freedom
    between                variance of the true effect between windows (DerSimonian and Laird)
    share                  (K,) weight of each window in the mean; the shares add up to 1
    """

    value: float
    standard_error: float
    low: float
    high: float
    level: float
    degrees: float
    between: float
    share: Array


def random_effects(effect: ArrayLike, influence: ArrayLike, *, level: float = 0.95) -> RandomEffects:
    """Combine estimates of one effect from K windows whose errors are clustered in C groups.

    Args:
        effect: (K,) estimates.
        influence: (K, C) contribution of each cluster to the error of each estimate. The variance of estimate k is
            the sum of squares of its row.
        level: of the interval.

    mean = Σ a_k·effect_k with a_k ∝ 1/(v_k + τ²) and τ² by DerSimonian and Laird (1986). Variance of the mean
    = τ²·Σ a_k² + Σ_c (Σ_k a_k·influence_kc)²: a cluster that is in several windows counts once. With clusters of
    their own in every window this is the usual 1/Σ 1/(v_k + τ²). Degrees of freedom: the smaller of windows and
    effective clusters, (Σ s_c)²/Σ s_c² of their variances s_c, less 1. A single window shows no disagreement; its
    interval is that of its clusters. O(K·C).

    Raises:
        InvalidInput: shapes differ, or a window has fewer than two clusters.
    """
    effects = np.asarray(effect, dtype=np.float64)
    errors = np.asarray(influence, dtype=np.float64)
    if effects.ndim != 1 or effects.size == 0 or errors.ndim != 2 or len(errors) != effects.size:
        raise InvalidInput(
            f"must have one row per effect, got {errors.shape} for {effects.shape}; give (windows, clusters)",
            field="influence",
        )
    require((errors != 0).sum(axis=1).min() >= 2, "influence", "a window has fewer than two clusters; leave it out")
    within = (errors**2).sum(axis=1)
    between = between_variance(effects, within)
    weight = 1.0 / (within + between)
    share = weight / weight.sum()
    value = float(share @ effects)
    own = (share @ errors) ** 2
    variance = between * float(share @ share) + float(own.sum())
    degrees = effective(own) - 1.0
    if effects.size > 1:
        degrees = min(degrees, effects.size - 1.0)
    error = float(np.sqrt(variance))
    # One effective cluster leaves a fraction of a degree: the interval is wide, not undefined.
    half = float(special.stdtrit(max(degrees, 1.0), (1 + level) / 2)) * error
    return RandomEffects(value, error, value - half, value + half, level, max(degrees, 1.0), between, share)


def between_variance(effect: ArrayLike, within: ArrayLike) -> float:
    """Variance between windows of effects (K,) with variances ``within`` (K,), by DerSimonian and Laird; at least 0."""
    effects, variance = (np.asarray(values, dtype=np.float64) for values in (effect, within))
    weight = 1.0 / variance
    mean = weight @ effects / weight.sum()
    excess = float(weight @ (effects - mean) ** 2) - (effects.size - 1)
    scale = float(weight.sum() - weight @ weight / weight.sum())
    return max(0.0, excess / scale) if scale > 0 else 0.0


def effective(share: ArrayLike) -> float:
    """Number of equal parts that are as uneven as these (n,): (Σ s)² / Σ s²."""
    parts = np.asarray(share, dtype=np.float64)
    return float(parts.sum() ** 2 / (parts @ parts))
