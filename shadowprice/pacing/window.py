"""The rest of a campaign's window as one allocation problem, solved with what exploration takes set aside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation import Allocation, Problem, Resource, solve
from shadowprice.allocation.problem.joint import campaign_problem
from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.errors import NotCertified


@dataclass(frozen=True)
class WindowSolution:
    """The optimum of the rest of a window.

    allocation  of the requests that do not explore, on the sample's columns
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
) -> WindowSolution:
    """Maximise the value of the requests to come with ``left`` minor units in hand.

    Args:
        campaign: terms, form of the budget, share ε of requests that explore.
        curves: side → curves of a sample, each column state for as many requests as are expected of its side.
        ahead: side → requests expected; positive for every side of ``curves``.
        left: minor units in hand; what the requests themselves earn of a mean comes on top.
        solver: a name of ``shadowprice.allocation.solvers``.

    With exploration every request draws uniformly with probability ε, so the choices x are those of

        maximise (1 − ε)·Σ v·x + ε·Σ v̄   subject to  (1 − ε)·Σ c·x + ε·Σ c̄ ≤ left

    with v̄ and c̄ the means over the levels: the problem without exploration, on (left − ε·Σ c̄)/(1 − ε).

    Raises:
        NotCertified: for a total, exploration alone costs more than the remaining budget.
        InvalidInput: curves of other levels.
    """
    share = campaign.exploration
    sample, columns = campaign_problem(campaign, curves)
    resource = sample.resources[0]
    times = np.empty(sample.shape[1])
    for side, part in columns.items():
        times[part] = ahead[side] / curves[side].accounts
    is_total = campaign.budget.form == "total"
    cost, measure = times * sample.paid(resource), times * sample.measure(resource)
    value = times * sample.value
    drawn_value = share * _mean_over_levels(value, sample)
    drawn_net = share * _mean_over_levels(cost if is_total else cost - resource.limit * measure, sample)
    in_hand = (left - drawn_net) / (1 - share)
    if is_total:
        if in_hand < 0 <= left:
            raise NotCertified(
                f"exploring {share:.1%} of the requests to come would cost {drawn_net:.0f} of the {left:.0f} "
                "minor units that are left; lower campaign.exploration"
            )
        money = Resource.total(resource.name, cost, in_hand)
    else:
        # A mean per account is a mean per response where every request counts one.
        money = Resource.per_response(resource.name, cost, resource.limit, measure, carry=in_hand)
    solved = solve(Problem(value, [money], sample.allowed), solver=solver)
    spend: dict[Side, float] = {}
    for side, part in columns.items():
        paid = campaign.terms(side).cost(curves[side].response)
        chosen = np.take_along_axis(paid, solved.level[None, part].astype(np.intp), axis=0)
        spend[side] = float((1 - share) * chosen.mean() + share * paid.mean())
    return WindowSolution(
        solved, (1 - share) * solved.primal + drawn_value, (1 - share) * solved.dual + drawn_value, spend
    )


def _mean_over_levels(matrix: NDArray[np.float64], problem: Problem) -> float:
    """Σ over the columns of the mean over their allowed levels."""
    if problem.allowed is None:
        return float(matrix.mean(axis=0).sum())
    return float((np.where(problem.allowed, matrix, 0.0).sum(axis=0) / problem.allowed.sum(axis=0)).sum())
