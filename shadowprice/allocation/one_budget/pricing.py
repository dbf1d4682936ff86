"""Build an allocation from a located price: the decision rule resolves ties, and the certificate follows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.one_budget.search import Goal, locate
from shadowprice.allocation.population.mapped import assign
from shadowprice.allocation.population.population import Population
from shadowprice.allocation.population.spend_curve import Points
from shadowprice.allocation.problem.solution import Allocation, fill, pick, relative_gap
from shadowprice.campaign import BudgetForm
from shadowprice.decision import best_levels


def solve_population(
    population: Population, goal: Goal, form: BudgetForm, counted: int, carry: float, limit: float, near: float | None
) -> Allocation:
    """The exact optimum of one limit over a population, wherever it is kept.

    Args:
        population: the accounts.
        goal: the limit as the kernel takes it.
        form: how the limit was written; the violation is measured against its own allowance.
        counted: number of accounts that the limit counts.
        carry: money on top of the limit.
        limit: of the resource: in all, per account or per unit of response.
        near: a price expected to be close, or None.
    """

    def excess(paid: float, measure: float) -> float:
        base = {"total": 1.0, "per_account": float(counted), "per_response": measure}[form]
        allowance = carry + limit * base
        if allowance > 0:
            return paid / allowance - 1.0
        return np.inf if paid > allowance else 0.0

    located = locate(population, goal, near=near)
    if located.price is None:
        return _infeasible(population, goal, excess)
    price = located.price
    points = Points.of(located.last, goal.cost, goal.member)
    cheap, dear = best_levels(points.value, price * points.cost, points.cost, points.permitted)
    if price == 0.0:
        dear = cheap
    worth = float(located.sums[:, 0].sum())
    net, measure = float(goal.member @ located.sums[:, 1]), float(goal.member @ located.sums[:, 2])

    left = goal.capacity - net
    low, high = float(pick(points.cost, cheap).sum()), float(pick(points.cost, dear).sum())
    share = float(np.clip((left - low) / (high - low), 0.0, 1.0)) if high > low else 0.0

    def mixed(matrix: NDArray[np.float64]) -> float:
        one, other = float(pick(matrix, cheap).sum()), float(pick(matrix, dear).sum())
        return one + share * (other - one)

    score = points.value - price * points.cost
    # Of two tied levels either may hold the larger floating-point score; the bound takes the larger.
    best = np.maximum(pick(score, cheap), pick(score, dear))
    dual = price * goal.capacity + (worth - price * net) + float(best.sum())
    primal = worth + mixed(points.value)
    spent = net + mixed(points.cost)
    measured = measure + mixed(points.measure)
    paid = spent + goal.limit * measured
    terms = abs(price * goal.capacity) + abs(worth) + price * (abs(net) + 2.0 * goal.limit * abs(measure))
    terms += sum(
        float(np.abs(pick(points.value, end)).sum() + price * np.abs(pick(points.cost, end)).sum())
        for end in (cheap, dear)
    )
    rounded = fill(pick(points.cost, cheap), pick(points.cost, dear), cheap, dear, left)
    level = located.level
    assert level is not None
    assign(level, located.account, rounded)
    return Allocation(
        status="optimal",
        prices=np.array([price]),
        tie_share=share,
        level=level,
        primal=primal,
        dual=dual,
        gap=relative_gap(primal, dual, terms),
        violation=excess(paid, measured),
        spend=np.array([paid]),
        rounded=worth + float(pick(points.value, rounded).sum()),
        tied=int(np.count_nonzero(cheap != dear)),
        passes=located.passes,
    )


def _infeasible(population: Population, goal: Goal, excess: object) -> Allocation:
    assert callable(excess)
    cheapest = population.cheapest(goal.cost, goal.member)
    paid = cheapest.spend + goal.limit * cheapest.measure
    return Allocation(
        status="infeasible",
        prices=np.array([np.nan]),
        tie_share=0.0,
        level=cheapest.level,
        primal=cheapest.value,
        dual=-np.inf,
        gap=np.inf,
        violation=excess(paid, cheapest.measure),
        spend=np.array([paid]),
        rounded=cheapest.value,
        tied=0,
        passes=2,
        rounded_violation=excess(paid, cheapest.measure),
    )
