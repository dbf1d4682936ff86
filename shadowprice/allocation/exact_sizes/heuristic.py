"""The heuristic allocation of S2 (algorithm 1), as printed and with exact eligibility.

Every account wants its best open segment. Accounts are served in order of what they would regret,

    h_i = (α_a + α_b)/2 · (2·value_ai − value_bi − value_ci),     α_j = Σ_i value_ji / quota left in j,

a, b and c the three best open segments of the account, sums over the accounts not yet served. When a segment is full
it closes, α and h are formed again, and the rest are served in the new order. The paper does not say how its list goes
on after a closure, nor what h is with fewer than three open segments. Here a segment that is not there has no α, and
an account's ineligible alternative has value 0.

As printed an ineligible pair merely has value 0. It can then be an account's best one, and an account whose eligible
segments were filled by others is given a forbidden one, although a plan exists: the claim that no constraint is
violated does not hold. :func:`heuristic_demands` never offers an ineligible pair and repairs what is left over.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.allocation.exact_sizes.plan import NOBODY, Plan, SizedProblem
from shadowprice.allocation.exact_sizes.repair import place_everybody

ALTERNATIVES = 2
"""Next best segments that regret is measured against."""


def heuristic_demands(value: ArrayLike, demands: ArrayLike, allowed: ArrayLike | None = None) -> Plan:
    """The heuristic among eligible pairs, and augmenting paths for the accounts it leaves over.

    Arguments and errors are those of :func:`~shadowprice.allocation.exact_sizes.exact.solve_demands`. Sizes and
    eligibility hold exactly, or the status is ``infeasible`` with the segments that cause it. O(J·(J·N + N·log N)).
    Source: S2, algorithm 1.
    """
    problem = SizedProblem.of(value, demands, allowed)
    segment, shortage = place_everybody(problem, served(problem, literal=False))
    return problem.plan(segment) if shortage is None else problem.impossible(shortage)


def literal_heuristic_demands(value: ArrayLike, demands: ArrayLike, allowed: ArrayLike | None = None) -> Plan:
    """The heuristic as printed: ineligible pairs have value 0 and may be taken; ``ineligible`` counts them.

    Status ``violated`` when there are any. Sizes hold. Arguments, errors and cost as :func:`heuristic_demands`.
    """
    problem = SizedProblem.of(value, demands, allowed)
    return problem.plan(served(problem, literal=True))


def served(problem: SizedProblem, *, literal: bool) -> NDArray[np.int32]:
    """int32 (N,): the segment each account is served, ``NOBODY`` where every eligible one was full."""
    segment = np.full(problem.shape[1], NOBODY, dtype=np.int32)
    left, waiting = problem.demand.copy(), np.arange(problem.shape[1])
    while waiting.size and (left > 0).any():
        open_ = np.flatnonzero(left > 0)
        worth = problem.value[np.ix_(open_, waiting)].astype(np.float64)
        eligible = None if problem.allowed is None else problem.allowed[np.ix_(open_, waiting)]
        if eligible is not None:
            worth[~eligible] = 0.0
        contest = worth.sum(axis=1) / left[open_]
        if eligible is not None and not literal:
            worth[~eligible] = -np.inf
            some = eligible.any(axis=0)
            waiting, worth = waiting[some], worth[:, some]
        columns = np.arange(waiting.size)
        best = worth.argmax(axis=0)
        regret = _regret(worth, contest, best, columns)
        order = np.argsort(-regret, kind="stable")
        wanted = best[order]
        stop = waiting.size
        for row, segment_left in enumerate(left[open_].tolist()):
            places = np.flatnonzero(wanted == row)
            if places.size >= segment_left:
                stop = min(stop, int(places[segment_left - 1]) + 1)
        now = order[:stop]
        segment[waiting[now]] = open_[best[now]]
        left[open_] -= np.bincount(best[now], minlength=open_.size)
        waiting = waiting[np.sort(order[stop:])]
    return segment


def _regret(
    worth: NDArray[np.float64], contest: NDArray[np.float64], best: NDArray[np.intp], columns: NDArray[np.intp]
) -> NDArray[np.float64]:
    """h of every account: its loss against each of its next best segments, times the mean contest of the first two."""
    rest = worth.copy()
    top = worth[best, columns]
    weight, loss = contest[best], np.zeros(columns.size)
    rest[best, columns] = -np.inf
    for number in range(min(ALTERNATIVES, worth.shape[0] - 1)):
        following = rest.argmax(axis=0)
        value = rest[following, columns]
        eligible = np.isfinite(value)
        if number == 0:
            weight = np.where(eligible, (weight + contest[following]) / 2, weight)
        loss += np.where(eligible, top - np.where(eligible, value, 0.0), np.maximum(top, 0.0))
        rest[following, columns] = -np.inf
    return weight * loss
