"""The exact optimum of a small allocation problem with K limits: a dual simplex with long steps.

The dual, D(λ) = λ·capacity + Σ_i max_j (value_ij − λ·cost_ij), is convex and piecewise linear. A vertex of it is
held by K conditions: two levels of an account tie, or a row's price stands at a bound. Taken as equations of the
primal they give the shares of the tied levels and the slacks of the held rows. Where one of these is negative the
dual falls when its condition is given up. The prices then move along the remaining edge to the lowest point of D on
it, past any number of changes of level. The change that ends the descent is the new condition. The line search is the
problem of one budget; it climbs the same hulls.

With all shares and slacks non-negative the vertex is optimal: primal and dual meet. At most K accounts are split.
Where D falls for ever the limits contradict each other, and the direction names them.

Source: the dual simplex with bound flipping (Maros 2003) on a generalised upper bound structure (Dantzig and
Van Slyke 1967); for K = 1 it is Sinha and Zoltners (1979).
"""

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.several_budgets.active_set import ActiveSet
from shadowprice.allocation.several_budgets.descent import Descent, Vertex
from shadowprice.errors import NotCertified

PERTURBATIONS = (1e-12, 1e-10, 1e-8)
"""Values are moved apart by such shares of the largest one, so that no two conditions coincide; the next is tried
where the descent stalls. The reported prices and values are those of the true ones."""


def optimum(
    active: ActiveSet,
    capacity: NDArray[np.float64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    slack: NDArray[np.float64],
    start: NDArray[np.float64],
) -> Vertex:
    """The vertex at which the dual is lowest.

    Args:
        active: the accounts.
        capacity: (K,), right-hand sides.
        lower, upper: (K,), bounds of the prices.
        slack: (K,), rounding that each row is allowed.
        start: (K,), prices to begin from; the closer, the fewer the steps.

    About 2K steps from afar, each O((M + hull edges)·J·n + K³).
    """
    unit = active.worth / active.unit
    for share in PERTURBATIONS:
        descent = Descent(
            active, capacity / active.unit, lower / unit, upper / unit, slack / active.unit, start / unit, share
        )
        vertex = descent.run()
        if vertex is not None:
            return vertex
    raise NotCertified("the descent to the optimum of several limits stalls; no answer is exact enough to give")
