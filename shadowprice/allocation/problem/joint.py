"""The joint problem of a campaign: both sides of the market under one budget (S0 eq. 16–18)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.problem.problem import Matrix, Problem, Resource
from shadowprice.campaign import SIDES, Campaign, Side
from shadowprice.curves import Curves
from shadowprice.errors import InvalidProblem


def campaign_problem(
    campaign: Campaign, curves: Mapping[Side, Curves], *, carry: float = 0.0
) -> tuple[Problem, dict[Side, slice]]:
    """The allocation problem of one batch of requests of both sides.

    Args:
        campaign: terms of each side and the form of the budget.
        curves: response of the requests of each side, (J_side, N_side).
        carry: minor units added to what may be spent.

    Returns:
        The problem over all requests, customers first, and the columns of each side. A side with
        fewer levels than the other has its missing levels disallowed.

    Raises:
        InvalidProblem: no requests, or curves whose levels are not the campaign's.
    """
    present: list[Side] = [side for side in SIDES if side in curves and curves[side].accounts]
    if not present:
        raise InvalidProblem("there is no request to allocate to", field="curves")
    depth = max(curves[side].levels.size for side in present)
    columns: dict[Side, slice] = {}
    start = 0
    for side in present:
        if tuple(curves[side].levels.tolist()) != campaign.terms(side).levels:
            raise InvalidProblem(f"levels of side {side!r} differ from the campaign's", field="curves")
        columns[side] = slice(start, start + curves[side].accounts)
        start += curves[side].accounts

    def stack(part: Callable[[Side, NDArray[Any]], NDArray[Any]]) -> Matrix:
        matrix = np.zeros((depth, start))
        for side in present:
            response = curves[side].response.astype(np.float64)
            matrix[: response.shape[0], columns[side]] = part(side, response)
        return matrix

    allowed = stack(lambda _side, response: np.ones_like(response)) > 0
    value = stack(lambda side, response: campaign.terms(side).value(response))
    cost = stack(lambda side, response: campaign.terms(side).cost(response))
    budget = campaign.budget
    if budget.form == "total":
        resource = Resource.total(budget.name, cost, budget.limit, carry=carry)
    elif budget.form == "per_account":
        resource = Resource.per_account(budget.name, cost, budget.limit, carry=carry)
    else:
        measure = stack(lambda side, response: campaign.terms(side).measure(response))
        resource = Resource.per_response(budget.name, cost, budget.limit, measure, carry=carry)
    return Problem(value, [resource], None if allowed.all() else allowed), columns
