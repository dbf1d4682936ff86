"""First come, first served: every account in turn takes the best segment with a free place."""

import numpy as np
from numpy.typing import ArrayLike

from shadowprice.allocation.exact_sizes.plan import NOBODY, Plan, SizedProblem
from shadowprice.allocation.exact_sizes.repair import place_everybody


def greedy_demands(value: ArrayLike, demands: ArrayLike, allowed: ArrayLike | None = None) -> Plan:
    """Place the accounts in their order, each in its best segment among those with free quota.

    Accounts left over in the end are placed by augmenting paths, or the status is ``infeasible``. Arguments and errors
    are those of :func:`~shadowprice.allocation.exact_sizes.exact.solve_demands`. O(J²·N).
    """
    problem = SizedProblem.of(value, demands, allowed)
    score = problem.value.astype(np.float64)
    if problem.allowed is not None:
        score[~problem.allowed] = -np.inf
    free, start = problem.demand.copy(), 0
    segment = np.full(score.shape[1], NOBODY, dtype=np.int32)
    while start < score.shape[1] and free.any():
        rest = np.where((free > 0)[:, None], score[:, start:], -np.inf)
        wanted = np.where(np.isfinite(rest).any(axis=0), rest.argmax(axis=0), NOBODY)
        # All are served up to the first account that finds its segment full.
        full = [np.flatnonzero(wanted == j)[free[j] : free[j] + 1] for j in np.flatnonzero(free)]
        stop = int(min((rows[0] for rows in full if rows.size), default=wanted.size))
        segment[start : start + stop] = wanted[:stop]
        free -= np.bincount(wanted[:stop][wanted[:stop] >= 0], minlength=free.size)
        start += stop
    segment, shortage = place_everybody(problem, segment)
    return problem.plan(segment) if shortage is None else problem.impossible(shortage)
