"""Turn shares into levels by a hash of the request: a split account gets each level with its share in expectation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.problem.dense import Dense
from shadowprice.allocation.problem.problem import Problem
from shadowprice.allocation.problem.solution import Allocation
from shadowprice.decision import decide, uniform
from shadowprice.errors import InvalidInput, InvalidProblem


def draw_levels(
    problem: Problem,
    allocation: Allocation,
    request_ids: Sequence[str] | Sequence[bytes] | Sequence[int] | NDArray[np.generic],
) -> NDArray[np.int32]:
    """One level per account, int32 (N,), whose expectation over request ids is the allocation's optimum.

    An account that the optimum splits takes each of its levels with that level's share; of the others, those that tie
    at the prices take the dearer level with the tie share. The draw is the decision rule's: a hash of the request id,
    the same in every process and every time. Unlike ``allocation.level`` a single draw may exceed a limit, by chance.

    Raises:
        InvalidProblem: an infeasible allocation, which has no prices.
        InvalidInput: not one id for each account.

    O(K·J·N). Source: S1 eq. 7 with the tie share.
    """
    if allocation.status == "infeasible":
        raise InvalidProblem("an infeasible allocation has nothing to draw", field="allocation")
    if len(request_ids) != problem.shape[1]:
        raise InvalidInput(
            f"needs one id for each of {problem.shape[1]} accounts, got {len(request_ids)}", field="request_ids"
        )
    split = allocation.fractional
    if not split.account.size:
        if not allocation.tied:
            return allocation.level.copy()
        dense = Dense.of(problem)
        share = allocation.tie_share
        return decide(dense.value, dense.net, allocation.prices, share, request_ids, dense.allowed).level
    level = allocation.level.copy()
    for account in np.unique(split.account).tolist():
        mine = np.flatnonzero(split.account == account)
        drawn = np.searchsorted(np.cumsum(split.share[mine]), uniform(request_ids[account]), side="right")
        level[account] = split.level[mine[min(int(drawn), mine.size - 1)]]
    return level
