"""Manual priority, the baseline of S2: segments choose in turn, each its best accounts."""

import numpy as np
from numpy.typing import ArrayLike

from shadowprice.allocation.exact_sizes.plan import NOBODY, Plan, SizedProblem
from shadowprice.allocation.exact_sizes.repair import place_everybody
from shadowprice.errors import InvalidProblem


def priority_demands(
    value: ArrayLike, demands: ArrayLike, allowed: ArrayLike | None = None, *, conversion: ArrayLike | None = None
) -> Plan:
    """Segments in order of their historical ``conversion`` (J,), highest first, each take the best accounts left.

    Without ``conversion`` the order is that of the mean value over eligible accounts. Accounts left over in the end are
    placed by augmenting paths, or the status is ``infeasible``. Other arguments and errors are those of
    :func:`~shadowprice.allocation.exact_sizes.exact.solve_demands`. O(J·N).
    Source: S2, the baseline of its online tests.
    """
    problem = SizedProblem.of(value, demands, allowed)
    depth, accounts = problem.shape
    if conversion is None:
        rate = np.array([_mean(problem, j) for j in range(depth)])
    else:
        rate = np.asarray(conversion, dtype=np.float64)
        if rate.shape != (depth,) or not np.isfinite(rate).all():
            raise InvalidProblem(f"must be {depth} finite numbers", field="conversion")
    segment = np.full(accounts, NOBODY, dtype=np.int32)
    for j in np.argsort(-rate, kind="stable").tolist():
        free = segment == NOBODY
        if problem.allowed is not None:
            free &= problem.allowed[j]
        candidates = np.flatnonzero(free)
        order = np.argsort(-problem.value[j, candidates], kind="stable")
        segment[candidates[order[: int(problem.demand[j])]]] = j
    segment, shortage = place_everybody(problem, segment)
    return problem.plan(segment) if shortage is None else problem.impossible(shortage)


def _mean(problem: SizedProblem, segment: int) -> float:
    row = problem.value[segment] if problem.allowed is None else problem.value[segment][problem.allowed[segment]]
    return float(row.mean(dtype=np.float64)) if row.size else -np.inf
