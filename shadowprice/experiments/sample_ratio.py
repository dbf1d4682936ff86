"""Sample-ratio mismatch: whether the units in the log are divided as the shares state.

A mismatch shows that rows of an arm are lost or assigned by another rule. The lift is then not the effect of the arm.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from shadowprice.checks import require
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.metric import Array

CONCENTRATION = 1000.0
"""Weight of the alternative around the planned shares, in units: the test is sharpest for deviations of about 3 %."""


@dataclass(frozen=True)
class SampleRatio:
    """Units by arm against the plan.

    observed, expected  arm → units
    p_value             of the chi-square test; valid if it is computed once
    mismatch            whether it is below the level of the test
    """

    observed: Mapping[str, int]
    expected: Mapping[str, float]
    p_value: float
    mismatch: bool


def sample_ratio(counts: Mapping[str, int], shares: Mapping[str, float], *, level: float = 0.001) -> SampleRatio:
    """Test the number of units in each arm against the shares, once.

    Args:
        counts: arm → units, each counted once.
        shares: arm → planned share, in any unit; arms of share 0 must have no units.
        level: probability of a false alarm.

    Raises:
        InvalidInput: arms that differ, a negative number, or units in an arm without a share.

    Example:
        >>> sample_ratio({"holdout": 100, "policy": 900}, {"holdout": 1000, "policy": 9000}).mismatch
        False
    """
    observed, share = _checked(counts, shares)
    expected = share * observed.sum()
    p_value = 1.0
    if observed.sum() and share.size > 1:
        p_value = float(special.chdtrc(share.size - 1, ((observed - expected) ** 2 / expected).sum()))
    named = [arm for arm, planned in shares.items() if planned > 0]
    return SampleRatio(dict(counts), dict(zip(named, expected.tolist(), strict=True)), p_value, p_value < level)


def sequential_sample_ratio(new: ArrayLike, shares: ArrayLike, *, concentration: float = CONCENTRATION) -> Array:
    """p-values (T,) of the sample ratio after each day, valid at all days at once.

    With counts x_t of all units up to day t, planned shares θ and a Dirichlet(kθ) alternative, the Bayes factor

        B_t = Γ(k) / Γ(k + n_t) · Π_i Γ(kθ_i + x_ti) / Γ(kθ_i) · θ_i^(−x_ti)

    is a martingale under the plan; p_t = min(1, 1 / max_{s ≤ t} B_s).

    Args:
        new: (T, arms), units first seen on each day by arm.
        shares: (arms,), planned shares, in any unit, positive.
        concentration: k, units.

    Source: Lindon and Malek (2022), Anytime-valid inference for multinomial count data, equation 6. O(T · arms).
    """
    table = np.asarray(new, dtype=np.float64)
    planned = np.asarray(shares, dtype=np.float64)
    if table.ndim != 2 or planned.shape != table.shape[1:]:
        raise InvalidInput(f"must have shape (days, arms), got {table.shape} for {planned.shape} shares", field="new")
    require(np.all(np.isfinite(planned) & (planned > 0)), "shares", "must be positive; leave out arms without a share")
    InvalidInput.refuse_rows(~(table >= 0).all(axis=1), "must be numbers of units, not negative", field="new")
    require(concentration > 0, "concentration", "must be positive")
    share = planned / planned.sum()
    counts = np.cumsum(table, axis=0)
    prior = concentration * share
    log_factor = (
        special.gammaln(concentration)
        - special.gammaln(concentration + counts.sum(axis=1))
        + (special.gammaln(prior + counts) - special.gammaln(prior) - counts * np.log(share)).sum(axis=1)
    )
    return np.asarray(np.exp(-np.maximum(np.maximum.accumulate(log_factor), 0.0)))


def _checked(counts: Mapping[str, int], shares: Mapping[str, float]) -> tuple[Array, Array]:
    unknown = set(counts) - set(shares)
    require(not unknown, "counts", f"have no share: {sorted(unknown)}")
    weights = np.array(list(shares.values()), dtype=np.float64)
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise InvalidInput("must be finite, not negative, and not all 0", field="shares")
    units = np.array([counts.get(arm, 0) for arm in shares], dtype=np.float64)
    require(not (units < 0).any(), "counts", "must not be negative")
    if units[weights == 0].any():
        raise InvalidInput("has units in an arm whose share is 0; correct the shares or the log", field="counts")
    return units[weights > 0], weights[weights > 0] / weights.sum()
