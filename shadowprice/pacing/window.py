"""The rest of a campaign's window as one allocation problem, with what exploration and holdouts take set aside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation import Allocation, solve
from shadowprice.allocation.executors import Executor
from shadowprice.allocation.problem.solution import pick
from shadowprice.allocation.sources.campaign import CampaignProblem, Money, SideSource
from shadowprice.campaign import AnswerShares, Campaign, Side
from shadowprice.curves import Curves
from shadowprice.errors import NotCertified

IN_MEMORY = 1 << 18
"""Up to this many accounts the matrices of the problem are made once; of more they are made at each pass."""


SLACK = 1e-6
"""Room above the cost of the cheapest levels, relative and in minor units, so that rounding leaves them possible."""


@dataclass(frozen=True)
class WindowSolution:
    """The optimum of the rest of a window.

    allocation  of the requests whose level is chosen, one column for each account, customers first
    primal      value of all requests to come, drawn and held ones included; ``dual`` is its upper bound
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
    of_sides: Mapping[str, float] | None = None,
    *,
    solver: str = "auto",
    executor: Executor | None = None,
) -> WindowSolution:
    """Maximise the value of the requests to come with ``left`` minor units in hand.

    Args:
        campaign: terms, form of the budget, share of requests that explore, arms.
        curves: side → curves of accounts, each of which makes its share of the requests expected of its side.
        ahead: side → requests expected; positive for every side of ``curves``.
        left: minor units in hand; what the requests themselves earn of a mean comes on top.
        of_sides: name → minor units in hand of each of the campaign's budgets of one side; their limits by default.
            One that does not pay for the cheapest levels of its side counts as if it just did: the hard stop refuses
            the rest, and the other side keeps its money.
        solver: a name of ``shadowprice.allocation.solvers``.
        executor: who holds the accounts; None for this process.

    With exploration and arms each request is chosen, drawn uniformly or held at the lowest level with the probabilities
    p, ε and h of :attr:`~shadowprice.campaign.Campaign.answer_shares`, so the choices x are those of

        maximise p·Σ v·x + ε·Σ v̄ + h·Σ v_0   subject to  p·Σ c·x + ε·Σ c̄ + h·Σ c_0 ≤ left

    with v̄ and c̄ the means over the levels: the problem of chosen requests alone, on (left − ε·Σ c̄ − h·Σ c_0)/p.

    Memory: three matrices (J, N) of float64 for up to :data:`IN_MEMORY` accounts; for more, or with an executor, the
    curves (which may be mapped from files) and an int32 for each account.

    Raises:
        NotCertified: for a total, drawn and held requests alone cost more than the remaining budget.
        InvalidInput: curves of other levels, or weights that are no numbers of requests.
    """
    shares = campaign.answer_shares
    requests = {side: ahead[side] * mine.shares() for side, mine in curves.items() if mine.accounts}
    window = CampaignProblem(campaign, curves, requests)
    other_value = other_net = 0.0
    other_cost: dict[Side, float] = dict.fromkeys(window.sides, 0.0)
    if shares.chosen < 1:
        for side, source in window.sides.items():
            for _, arrays in source.tiles(source.names):
                allowed = arrays.get("allowed")
                drawn = _without_a_price(shares, arrays["cost"], allowed)
                earned = arrays.get("measure")
                other_value += _without_a_price(shares, arrays["value"], allowed)
                other_cost[side] += drawn
                other_net += drawn
                if earned is not None:
                    other_net -= campaign.budget.limit * _without_a_price(shares, earned, allowed)
    in_hand = (left - other_net) / shares.chosen
    if campaign.budget.form == "total" and in_hand < 0 <= left:
        raise NotCertified(
            f"exploring {shares.drawn:.1%} and holding {shares.held:.1%} of the requests to come would cost "
            f"{other_net:.0f} of the {left:.0f} minor units that are left; lower campaign.exploration or an arm's share"
        )
    given = {each.name: float(each.limit) for each in campaign.side_budgets} if of_sides is None else of_sides
    sides = {}
    for budget in campaign.side_budgets:
        if budget.side in window.sides and budget.name in given:
            most = (given[budget.name] - other_cost[budget.side]) / shares.chosen
            sides[budget.name] = max(most, _cheapest(window.sides[budget.side]))
    window.resources = Money(campaign, in_hand, sides)
    small = executor is None and window.accounts <= IN_MEMORY
    solved = solve(window.whole() if small else window, executor, solver=solver)
    spend: dict[Side, float] = {}
    for side, source in window.sides.items():
        start = window.columns[side].start
        chosen = other = 0.0
        for at, arrays in source.tiles(source.names & {"cost", "allowed"}):
            cost = arrays["cost"]
            level = solved.level[start + at : start + at + cost.shape[1]].astype(np.intp)
            chosen += float(pick(cost, level).sum())
            other += _without_a_price(shares, cost, arrays.get("allowed")) if shares.chosen < 1 else 0.0
        spend[side] = (shares.chosen * chosen + other) / ahead[side]
    return WindowSolution(
        solved, shares.chosen * solved.primal + other_value, shares.chosen * solved.dual + other_value, spend
    )


def _cheapest(source: SideSource) -> float:
    """Cost of the cheapest levels of all requests of a side, and a little more."""
    total = 0.0
    for _, arrays in source.tiles(source.names & {"cost", "allowed"}):
        allowed = arrays.get("allowed")
        cost = arrays["cost"] if allowed is None else np.where(allowed, arrays["cost"], np.inf)
        total += float(cost.min(axis=0).sum())
    return total * (1.0 + SLACK) + SLACK


def _without_a_price(shares: AnswerShares, matrix: NDArray[np.float64], allowed: NDArray[np.bool_] | None) -> float:
    """Σ over the columns of the mean over their allowed levels, and of the lowest, each times its share."""
    found = 0.0
    if allowed is None:
        allowed = np.ones(matrix.shape, dtype=np.bool_)
    if shares.drawn:
        found += shares.drawn * float((np.where(allowed, matrix, 0.0).sum(axis=0) / allowed.sum(axis=0)).sum())
    if shares.held:
        found += shares.held * float(pick(matrix, allowed.argmax(axis=0)).sum())
    return found
