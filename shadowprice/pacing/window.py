"""The rest of a campaign's window as one allocation problem, solved with what exploration takes set aside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation import Allocation, solve
from shadowprice.allocation.executors import Executor
from shadowprice.allocation.problem.solution import pick
from shadowprice.allocation.sources.campaign import CampaignProblem, Money
from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.errors import NotCertified

IN_MEMORY = 1 << 18
"""Up to this many accounts the matrices of the problem are made once; of more they are made at each pass."""


@dataclass(frozen=True)
class WindowSolution:
    """The optimum of the rest of a window.

    allocation  of the requests that do not explore, one column for each account, customers first
    primal      value of all requests to come, those that explore included; ``dual`` is its upper bound
    spend       side → expected minor units a request of it costs
    """

    allocation: Allocation
    primal: float
    dual: float
    spend: Mapping[Side, float]


def solve_window(
    campaign: Campaign,
    curves: Mapping[Side, Curves],
    ahead: Mapping[Side, float],
    left: float,
    *,
    solver: str = "auto",
    executor: Executor | None = None,
) -> WindowSolution:
    """Maximise the value of the requests to come with ``left`` minor units in hand.

    Args:
        campaign: terms, form of the budget, share ε of requests that explore.
        curves: side → curves of accounts, each of which makes its share of the requests expected of its side.
        ahead: side → requests expected; positive for every side of ``curves``.
        left: minor units in hand; what the requests themselves earn of a mean comes on top.
        solver: a name of ``shadowprice.allocation.solvers``.
        executor: who holds the accounts; None for this process.

    With exploration every request draws uniformly with probability ε, so the choices x are those of

        maximise (1 − ε)·Σ v·x + ε·Σ v̄   subject to  (1 − ε)·Σ c·x + ε·Σ c̄ ≤ left

    with v̄ and c̄ the means over the levels: the problem without exploration, on (left − ε·Σ c̄)/(1 − ε).

    Memory: three matrices (J, N) of float64 for up to :data:`IN_MEMORY` accounts; for more, or with an executor, the
    curves (which may be mapped from files) and an int32 for each account.

    Raises:
        NotCertified: for a total, exploration alone costs more than the remaining budget.
        InvalidInput: curves of other levels, or weights that are no numbers of requests.
    """
    share = campaign.exploration
    requests = {side: ahead[side] * mine.shares() for side, mine in curves.items() if mine.accounts}
    window = CampaignProblem(campaign, curves, requests)
    drawn_value = drawn_net = 0.0
    if share:
        for arrays in window.tiles():
            net = arrays["cost"] - campaign.budget.limit * arrays.get("measure", 0.0)
            drawn_value += share * _mean_over_levels(arrays["value"], arrays.get("allowed"))
            drawn_net += share * _mean_over_levels(net, arrays.get("allowed"))
    in_hand = (left - drawn_net) / (1 - share)
    if campaign.budget.form == "total" and in_hand < 0 <= left:
        raise NotCertified(
            f"exploring {share:.1%} of the requests to come would cost {drawn_net:.0f} of the {left:.0f} "
            "minor units that are left; lower campaign.exploration"
        )
    window.resources = Money(campaign, in_hand)
    small = executor is None and window.accounts <= IN_MEMORY
    solved = solve(window.whole() if small else window, executor, solver=solver)
    spend: dict[Side, float] = {}
    for side, source in window.sides.items():
        start = window.columns[side].start
        chosen = drawn = 0.0
        for at, arrays in source.tiles(source.names & {"cost", "allowed"}):
            cost = arrays["cost"]
            level = solved.level[start + at : start + at + cost.shape[1]].astype(np.intp)
            chosen += float(pick(cost, level).sum())
            drawn += _mean_over_levels(cost, arrays.get("allowed")) if share else 0.0
        spend[side] = ((1 - share) * chosen + share * drawn) / ahead[side]
    return WindowSolution(
        solved, (1 - share) * solved.primal + drawn_value, (1 - share) * solved.dual + drawn_value, spend
    )


def _mean_over_levels(matrix: NDArray[np.float64], allowed: NDArray[np.bool_] | None) -> float:
    """Σ over the columns of the mean over their allowed levels."""
    if allowed is None:
        return float(matrix.mean(axis=0).sum())
    return float((np.where(allowed, matrix, 0.0).sum(axis=0) / allowed.sum(axis=0)).sum())
