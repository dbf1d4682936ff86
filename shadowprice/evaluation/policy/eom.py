"""Expected outcome metric: what the decisions of some curves would have brought, on randomised rows."""

from __future__ import annotations

import numpy as np

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.policy.frontier import Trial, decided, read_at
from shadowprice.evaluation.statistics.clusters import Clusters
from shadowprice.evaluation.statistics.intervals import Statistic
from shadowprice.evaluation.statistics.metric import Array, metric


@metric
def eom(
    response: Array,
    expense: Array,
    level: Array,
    y: Array,
    paid: Array,
    propensity: Array,
    *,
    budget: float | None = None,
    price: float | None = None,
) -> Statistic:
    """Expected outcome of deciding by curves at a ``budget`` per row, or at a ``price`` of money.

    At a price λ every row is given the level that :func:`shadowprice.decision.decide` chooses by its curves; the rows
    that were really given that level, weighted by 1 / propensity, estimate value and cost (Hájek):

        V(λ) = Σ w·m·y / Σ w·m,    C(λ) = Σ w·m·c / Σ w·m,    m_i = 1[t_i = decision of i at λ]

    At a budget the value is interpolated on the path (C, V) over 40 prices, in every bootstrap sample anew; a budget
    beyond the path takes the value of the nearest end. NaN where no row matches. O(prices · N · J).

    Args:
        response: (J, N) expected value; expense: (J, N) expected cost.
        level: (N,) index of the level given; y: (N,) what it brought; paid: (N,) what it cost.
        propensity: (N,) probability of that level.
        budget, price: exactly one of them.

    Source: Ai et al. (2022), "LBCF"; Zhou et al. (2023), "DHCL"; S4.
    """
    if (budget is None) == (price is None):
        raise InvalidInput("give either a budget per row or a price", field="budget")
    trial = Trial(level=level.astype(np.int64), value=y, cost=paid, propensity=propensity)
    rows = Clusters(np.arange(y.size), y.size)
    path, _ = decided(trial, response, expense, None if price is None else [price], "hajek", rows)

    def statistic(weight: Array) -> Array:
        value, spent = path.at(weight)
        return value[:, 0] if budget is None else read_at(value, spent, budget)

    return statistic
