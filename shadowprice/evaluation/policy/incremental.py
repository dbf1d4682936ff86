"""Responses and money that a policy added over another one, with intervals, from its decisions and their outcomes.

The counterfactual is a mixture of levels, the same for every request: the lowest level, or the best flat mixture. Its
mean comes from curves. Where the curves are only a model, requests that were given a level of the mixture by chance
correct it (doubly robust); where they are the known truth, only the luck of the outcomes is uncertain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.clusters import Clusters, partitions
from shadowprice.evaluation.statistics.intervals import Estimate

Real = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Added:
    """Amount that each of N requests added over a counterfactual.

    amount   float64 (N,), outcome less the mean outcome under the counterfactual
    residual float64 (N,), its part that is chance: outcome less the curve, less what the correction takes off
    """

    amount: Real
    residual: Real

    def times(self, factor: Real) -> Added:
        """Convert to another unit."""
        return Added(factor * self.amount, factor * self.residual)


def added(
    outcome: Real,
    level: NDArray[np.integer],
    curve: Real,
    mixture: Real,
    propensity: Real | None = None,
) -> Added:
    """Compare outcomes with those under a mixture of levels.

    Args:
        outcome: (N,) as seen.
        level: (N,) index of the level given; negative where none was given, whose mean outcome is 0.
        curve: (J, N) mean outcome of each level.
        mixture: (J,) probabilities of the levels in the counterfactual.
        propensity: (N,) logged probability of the level given; None where ``curve`` is the known truth.

    With propensities p the counterfactual of a request is Σ_j m_j·q_j + (m_L / p_L)·(y − q_L): unbiased where every
    level of the mixture had a chance, or where the curves are right.

    Raises:
        InvalidInput: shapes that do not fit, or a propensity that is not in (0, 1].

    Complexity: O(J·N). Source: Robins, Rotnitzky and Zhao (1994); Dudík, Langford and Li (2011), eq. 4.

    >>> import numpy as np
    >>> curve = np.array([[0.2, 0.4], [0.5, 0.6]])
    >>> added(np.array([1.0, 0.0]), np.array([1, 0]), curve, np.array([1.0, 0.0])).amount
    array([ 0.8, -0.4])
    """
    seen, assigned = np.asarray(outcome, dtype=np.float64), np.asarray(level, dtype=np.intp)
    means, weights = np.asarray(curve, dtype=np.float64), np.asarray(mixture, dtype=np.float64)
    if means.ndim != 2 or means.shape != (weights.size, seen.size) or assigned.shape != seen.shape:
        raise InvalidInput(
            f"must be (levels, requests) = ({weights.size}, {seen.size}), got {means.shape}", field="curve"
        )
    had, columns = assigned >= 0, np.arange(seen.size)
    expected = np.where(had, means[assigned, columns], 0.0)
    counterfactual = weights @ means
    residual = seen - expected
    amount = seen - counterfactual
    if propensity is not None:
        chance = np.asarray(propensity, dtype=np.float64)
        wrong = ~((chance > 0) & (chance <= 1))
        InvalidInput.refuse_rows(wrong, "must be a probability above 0 and at most 1", field="propensity")
        correction = np.where(had, weights[assigned], 0.0) / chance * residual
        amount, residual = amount - correction, residual - correction
    return Added(amount, residual)


def total(parts: Added, account: NDArray[np.str_], level: float = 0.95) -> Estimate:
    """Sum of what the requests added, with an interval.

    The variance is that of the residuals, summed by account: which requests came is taken as given, their outcomes are
    not. The quantile is that of a t distribution whose degrees of freedom are the accounts that the variance rests on,
    (Σ s²)² / Σ s⁴. O(N log N).
    """
    own = _by_account(account)
    deviation = _deviation(own.sums(parts.residual), level)
    value = float(parts.amount.sum())
    return Estimate(value, value - deviation, value + deviation, level)


def cost_of_one(cost: Added, response: Added, account: NDArray[np.str_], level: float = 0.95) -> Estimate:
    """Added cost per added response, with Fieller's interval.

    The interval holds every ratio ρ at which Σ (cost − ρ·response) does not differ from 0. Where the responses
    themselves may be 0 it has no end, and the limits are infinite. O(N log N).

    Source: Fieller (1954).
    """
    own = _by_account(account)
    spend, gain = float(cost.amount.sum()), float(response.amount.sum())
    by_cost, by_gain = own.sums(cost.residual), own.sums(response.residual)
    reach = max(_quantile(by_cost, level), _quantile(by_gain, level)) ** 2
    a = gain**2 - reach * float(by_gain @ by_gain)
    b = spend * gain - reach * float(by_cost @ by_gain)
    c = spend**2 - reach * float(by_cost @ by_cost)
    if a <= 0 or b * b < a * c:
        return Estimate(spend / gain if gain else float("nan"), -np.inf, np.inf, level)
    root = float(np.sqrt(b * b - a * c))
    return Estimate(spend / gain, (b - root) / a, (b + root) / a, level)


def _by_account(account: NDArray[np.str_]) -> Clusters:
    return partitions(account.size, account, fields=("account", "partner"))[0]


def _deviation(sums: Real, level: float) -> float:
    return _quantile(sums, level) * float(np.sqrt(sums @ sums))


def _quantile(sums: Real, level: float) -> float:
    """Quantile of t for the number of accounts that a sum of squares rests on."""
    squares = sums * sums
    fourth = float(squares @ squares)
    effective = float(squares.sum()) ** 2 / fourth if fourth > 0 else np.inf
    return float(special.stdtrit(max(effective, 1.0), (1 + level) / 2))
