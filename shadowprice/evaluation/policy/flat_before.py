"""Best flat mixtures by earlier rows than those that judge them."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.checks import require
from shadowprice.evaluation.policy.frontier import LoggedPolicies, RandomizedRows
from shadowprice.evaluation.policy.judged import Flat
from shadowprice.evaluation.policy.uniform import flat_frontier, flat_levels, mixtures_at
from shadowprice.evaluation.statistics.clusters import Clusters
from shadowprice.evaluation.statistics.metric import Array


def flat_before(
    earlier: Mapping[Side, RandomizedRows],
    levels: Mapping[Side, int],
    requests: Mapping[Side, float],
    above: Array,
    allowed: Mapping[Side, NDArray[np.bool_]] | None = None,
) -> Flat:
    """Choose the flat mixtures of the most value at some costs above those of the lowest level for every request.

    A mixture that is chosen on the rows that judge it profits from the chance of these rows.

    Args:
        earlier: side → rows that judge no policy of the stage.
        levels: side → J.
        requests: side → expected requests.
        above: (G,) minor units of all requests that the mixtures cost more than the lowest level for everybody.
        allowed: side → bool (J, n) of the earlier rows, as rules allow; a side that is missing has no rule.

    Means of levels are weighted by inverse propensities (Hájek). A level that no row was given is left out. O(n · J).
    """
    value: dict[Side, Array] = {}
    paid: dict[Side, Array] = {}
    known: dict[Side, NDArray[np.intp]] = {}
    for side, trial in earlier.items():
        rows = np.size(np.asarray(trial.level))
        may = (allowed or {}).get(side)
        flat = flat_levels(np.ones((levels[side], rows), dtype=bool) if may is None else may)
        one = Clusters(np.zeros(rows, dtype=np.intp), 1)
        means = LoggedPolicies(trial, iter(flat), levels[side], "hajek", one, allowed=may).at(np.ones((1, 1)))
        known[side] = np.flatnonzero(np.isfinite(means[0][0]))
        require(known[side].size, "earlier", f"has no row of side {side!r} with a level")
        value[side], paid[side] = (mean[0][known[side]] for mean in means)
    lowest = sum(requests[side] * float(cost[0]) for side, cost in paid.items())
    shares, marginal = mixtures_at(flat_frontier(value, paid, requests), lowest + above)
    whole = {side: np.zeros((above.size, levels[side])) for side in earlier}
    for side, share in shares.items():
        whole[side][:, known[side]] = share
    return Flat(shares=whole, marginal=marginal)
