"""Divide one budget between campaigns exactly, by asking each of them about few budgets."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from shadowprice.allocation.portfolio.curve import ValueCurve
from shadowprice.allocation.portfolio.split import split
from shadowprice.errors import InvalidInput

Ask = Callable[[int], tuple[float, float]]
"""Budget of a campaign in minor units → its optimal value and its price of money there."""

MOST_ROUNDS = 60
GAP = 1e-7
"""Part of the value that the bound may be above it when the budgets are good enough."""


@dataclass(frozen=True, eq=False)
class Portfolio:
    """Budgets of campaigns that bring the most together.

    budget  name → budget in minor units
    price   value of the last unit of money of all of them
    value   sum of the campaigns' optima at these budgets
    gap     bound on what any other division brings more, as a part of the value
    curves  name → what is known of each campaign
    asked   solves of campaigns that it took
    """

    budget: Mapping[str, int]
    price: float
    value: float
    gap: float
    curves: Mapping[str, ValueCurve]
    asked: int


def solve_portfolio(
    campaigns: Mapping[str, Ask],
    curves: Mapping[str, ValueCurve],
    total: int,
    floors: Mapping[str, int],
    caps: Mapping[str, int],
) -> Portfolio:
    """Divide ``total`` minor units so that the sum of the campaigns' optima is largest; budgets are whole.

    A campaign's optimum is concave in its budget, and its price is a slope of it. So each answer bounds the value of
    every other budget: the tangents are a relaxation whose optimum says what to ask next. It ends where the bound and
    the value that was answered agree, which certifies the division against the joint linear program of all campaigns.

    Args:
        campaigns: name → solve at a budget.
        curves: name → at least one answer of each, inside floor and cap.
        total: money that may be given in all.
        floors: name → least budget; 0 where it is not named.
        caps: name → largest budget; the total where it is not named.

    Raises:
        InvalidInput: an unknown name, or floors that the total does not cover.

    Source: Kelley's cutting planes (1960) on the value functions; Geoffrion's decomposition by right-hand sides (1970).
    """
    names = sorted(campaigns)
    for field, given in (("floors", floors), ("caps", caps)):
        if unknown := sorted(set(given) - set(names)):
            raise InvalidInput(f"must name campaigns of {names}, got {unknown[0]!r}", field=field)
    least = np.array([floors.get(name, 0.0) for name in names])
    most = np.array([min(caps.get(name, total), total) for name in names])
    known: dict[str, ValueCurve] = dict(curves)
    answers: dict[tuple[str, int], tuple[float, float]] = {}
    best: tuple[float, dict[str, int], float] | None = None
    bound = np.inf
    for _ in range(MOST_ROUNDS):
        found = split([known[name] for name in names], total, least, most)
        bound = min(bound, found.bound)
        budgets = [int(budget + 1e-6) for budget in found.budget.tolist()]
        new = [place for place in zip(names, budgets, strict=True) if place not in answers]
        for name, budget in new:
            answers[name, budget] = campaigns[name](budget)
            known[name] = known[name].with_point(budget, *answers[name, budget])
        value = sum(answers[place][0] for place in zip(names, budgets, strict=True))
        if best is None or value > best[0]:
            best = value, dict(zip(names, budgets, strict=True)), found.price
        gap = max(bound - best[0], 0.0) / max(abs(best[0]), 1e-12)
        if gap <= GAP or not new:
            break
    assert best is not None
    value, chosen, price = best
    return Portfolio(chosen, price, value, gap, known, len(answers))
