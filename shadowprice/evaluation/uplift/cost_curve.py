"""Area under the cost curve: how a score of return on spend ranks the rows of a two-arm trial (DFCL's definition)."""

import numpy as np

from shadowprice.checks import require
from shadowprice.evaluation.statistics.intervals import Statistic
from shadowprice.evaluation.statistics.metric import Array, metric
from shadowprice.evaluation.uplift.ranking import in_groups, is_treated


@metric
def aucc(y: Array, paid: Array, score: Array, treatment: Array, *, steps: int = 200) -> Statistic:
    """Incremental value at equal steps of incremental cost, over that of treating all rows.

    Rows are taken in order of falling ``score`` (predicted value per cost), those of equal scores together. With Δy(n)
    the treated rows' value among the first n over all treated rows, less the same of the others, and Δc(n) likewise of
    the cost, the area is Σ_k Δy(n_k) / (Δy(N)·(steps + 1)), k = 0 … steps. Here n_k is where Δc first reaches
    (k/steps)·Δc(N); within rows of equal scores the curve is a straight line. A random score has about ½, a constant
    one exactly ½. NaN unless both arms have rows, the whole costs more than nothing, and it has a value.

    ``y`` (N,) value, ``paid`` (N,) cost, ``treatment`` (N,) in {0, 1}. O(N log N).
    Source: Zhou et al., "Decision Focused Causal Learning" (KDD 2024), with its public code; the curve is
    that of Du, Lee and Ghaffarizadeh (2019).
    """
    require(steps >= 1, "steps", "must be at least 1")
    arm = is_treated(treatment)
    order, ends = in_groups(score)
    treated = arm[order]
    value, cost = y[order], paid[order]

    def area(weight: Array) -> float:
        own = weight[order]
        in_arm, others = (own * treated).sum(), (own * ~treated).sum()
        if in_arm == 0 or others == 0:
            return np.nan
        signed = own * np.where(treated, 1.0 / in_arm, -1.0 / others)
        gained, spent = (np.r_[0.0, np.cumsum(signed * column)[ends]] for column in (value, cost))
        if spent[-1] <= 0 or gained[-1] == 0:
            return np.nan
        wanted = spent[-1] * np.arange(1, steps) / steps
        at = np.searchsorted(np.maximum.accumulate(spent), wanted)
        part = (wanted - spent[at - 1]) / (spent[at] - spent[at - 1])
        heights = gained[at - 1] + part * (gained[at] - gained[at - 1])
        return float((heights.sum() + gained[-1]) / (gained[-1] * (steps + 1)))

    return lambda weights: np.array([area(weight) for weight in weights])
