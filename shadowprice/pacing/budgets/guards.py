"""Limits on second outcomes: what is expected of them, and those that requests to come cannot meet."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation import Allocation
from shadowprice.allocation.population.source import Arrays
from shadowprice.allocation.problem.solution import pick
from shadowprice.allocation.sources.campaign import CampaignProblem
from shadowprice.allocation.sources.rows import Row, earned_by, members_of
from shadowprice.errors import NotCertified
from shadowprice.pacing.budgets.given import given
from shadowprice.price import ExpectedOutcome

SLACK = 1e-6
"""Room above the cost of the cheapest levels, relative and in minor units, so that rounding leaves them possible."""
HALVINGS = 6
"""Halvings between the least sum and that of the cheapest levels: the sum is at most 1/64 of it above the least."""


def check_guards(window: CampaignProblem, rows: Sequence[Row], most: Sequence[Row]) -> None:
    """Refuse a limit on a second outcome that no choice of the price can meet by the estimates of its mean.

    Args:
        window: the requests to come.
        rows: with what is in hand for all of them.
        most: the same rows with what is in hand for the requests whose level the price chooses.
    """
    for row, own in zip(rows, most, strict=True):
        tiles = (arrays for source in window.sources for _, arrays in source.tiles(source.names))
        if row.budget.outcome and (fault := beyond(row, own, tiles, window.sources[0].campaign.answer_shares.chosen)):
            for found in stated(window, [row]).values():
                _, low, high = found.least
                opened = "the rows leave this open: " if row.budget.limit >= low else ""
                fault += f" ({opened}the 95 % interval of the least is {low:.3g} to {high:.3g})"
            raise NotCertified(fault)


def stated(
    window: CampaignProblem, rows: Sequence[Row], level: NDArray[np.integer[Any]] | None = None
) -> dict[str, ExpectedOutcome]:
    """Return what is expected of second outcomes at the chosen levels, and the least that levels can have of them.

    Both count requests that explore or are held. The mean of a level is the same for all accounts, so the error of a
    mixture is at most the mixture of the errors: its interval covers at least as often, whatever accounts the means of
    levels share. Each bound of the least is the least bound of each request's levels; where several levels have about
    the same, it covers less often.

    Args:
        window: the requests to come.
        rows: of which those of means and of present periods are stated, where each side that they count has bounds.
        level: (N,) chosen levels; by default those with the least.

    Returns:
        Name of a limit → its figures: of a mean per request; of a sum with what its period has so far. O(J·N).
    """
    return {
        row.name: found
        for row in rows
        if row.budget.outcome and row.name == row.budget.name and (found := _stated(window, row, level))
    }


def _stated(window: CampaignProblem, row: Row, level: NDArray[np.integer[Any]] | None) -> ExpectedOutcome | None:
    budget, campaign = row.budget, window.sources[0].campaign
    mean, counted, sums = budget.form != "total", 0.0, np.zeros((2, 3))
    wanted = {"allowed", budget.outcome, members_of(row.name), earned_by("per_account")}
    for source, place in zip(window.sources, window.places, strict=True):
        if budget.side not in (None, source.side):
            continue
        bounds = row.bounds.get(source.side)
        if bounds is None:
            return None
        weights = campaign.draw_weights(source.side)
        for which, means in enumerate((source.guards[budget.outcome], *bounds)):
            own = replace(source, guards={**source.guards, budget.outcome: means})
            for at, arrays in own.tiles(own.names & wanted):
                taken, allowed, inside = row.taken(arrays), arrays.get("allowed"), arrays[members_of(row.name)]
                least = np.where(True if allowed is None else allowed, taken, np.inf).argmin(axis=0)
                start = place.start + at
                chosen = least if level is None else level[start : start + least.size].astype(np.intp)
                for kind, levels in enumerate((chosen, least)):
                    sums[kind, which] += float(given(campaign.answer_shares, taken, levels, allowed, weights) @ inside)
                counted += float(arrays[earned_by("per_account")][0] @ inside) if mean and which == 0 else 0.0
    if mean and not counted > 0:
        return None
    found = sums / counted if mean else sums + (budget.limit - row.in_hand)
    expected, possible = ((float(value), float(low), float(high)) for value, low, high in found)
    return ExpectedOutcome(expected=expected, least=possible)


def beyond(row: Row, own: Row, tiles: Iterable[Arrays], chosen: float) -> str:
    """Say how far a limit on a second outcome is below the least that it can be; empty where it can be met.

    Args:
        row: with what is in hand for all requests.
        own: the same row with what is in hand for the requests whose level the price chooses.
        tiles: the requests to come, some at a time.
        chosen: share of the requests whose level the price chooses.
    """
    budget, mean = row.budget, row.budget.form != "total"
    least, counted = -own.in_hand, 0.0
    for arrays in tiles:
        least += float(np.where(arrays.get("allowed", True), row.charge(arrays), np.inf).min(axis=0).sum())
        counted += float(arrays[earned_by(budget.form)][0] @ arrays[members_of(row.name)]) if mean else 0.0
    if least <= (SLACK * max(counted, 1.0) * budget.limit if mean else 0.0):
        return ""
    excess = chosen * least
    allowed, at_least, per = row.in_hand, row.in_hand + excess, "for the requests to come"
    if mean:
        allowed, at_least, per = budget.limit, budget.limit + excess / counted, "a request"
    return (
        f"limit {row.name!r} allows {allowed:g} {budget.outcome} {per}, and even the levels with the least of it, "
        f"with what explores and is held, have {at_least:.4g}; raise the limit"
    )


def beside_money(
    window: CampaignProblem, rows: Sequence[Row], attempt: Callable[[Sequence[Row]], Allocation]
) -> Allocation:
    """Return the solution of a window that the limits on second outcomes, or the money alone, leave no choice.

    Rows that bend get room between their own and the sum of the cheapest levels, about as little as is enough.

    Args:
        window: the requests to come.
        rows: that cannot be met together.
        attempt: solves the window with other rows.

    Raises:
        NotCertified: the money suffices without the limits on second outcomes, and none of them bends.
    """
    room = {row.name: _at_cheapest(window, row) - row.in_hand for row in rows if row.bends and row.budget.by_level}

    def bent(share: float) -> Allocation:
        return attempt([replace(row, in_hand=row.in_hand + share * max(room.get(row.name, 0.0), 0.0)) for row in rows])

    found = bent(1.0 + SLACK)
    if found.status == "infeasible":
        outcomes = ", ".join(repr(row.name) for row in rows if row.budget.outcome)
        if attempt([row for row in rows if not row.budget.outcome]).status != "infeasible":
            raise NotCertified(
                f"the money in hand pays for no choice of levels that keeps {outcomes}: raise this limit on a second "
                "outcome, or the budget"
            )
        return found
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        share = (low + high) / 2
        tried = bent(share)
        if tried.status == "infeasible":
            low = share
        else:
            found, high = tried, share
    return found


def _at_cheapest(window: CampaignProblem, row: Row) -> float:
    """Sum of the outcome over the requests of a row at the cheapest allowed level of each."""
    total = 0.0
    for source in window.sources:
        for _, arrays in source.tiles(source.names):
            cheapest = np.where(arrays.get("allowed", True), arrays["cost"], np.inf).argmin(axis=0)
            total += float(pick(row.taken(arrays), cheapest) @ arrays[members_of(row.name)])
    return total
