"""Build an allocation from a located price: the decision rule resolves ties, and the certificate follows."""

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.one_budget.search import Goal, locate
from shadowprice.allocation.population.mapped import assign
from shadowprice.allocation.population.population import Population
from shadowprice.allocation.population.spend_curve import Points
from shadowprice.allocation.problem.problem import Resource
from shadowprice.allocation.problem.solution import Allocation, excess, fill, pick, relative_gap
from shadowprice.decision import best_levels


def solve_population(
    population: Population, goal: Goal, resource: Resource, counted: int, near: float | None
) -> Allocation:
    """The exact optimum of one limit over a population, wherever it is kept.

    Args:
        population: the accounts.
        goal: the limit as the kernel takes it.
        resource: the limit as it was written; the violation is measured against its own allowance.
        counted: number of accounts that the limit counts.
        near: a price expected to be close, or None.
    """

    def beyond(paid: float, measure: float) -> float:
        base = {"total": 1.0, "per_account": float(counted), "per_response": measure}[resource.form]
        return excess("at_most", paid, resource.carry + resource.limit * base)

    located = locate(population, goal, near=near)
    if located.price is None:
        least = population.cheapest(goal.cost, goal.member)
        paid = least.spend + goal.limit * least.measure
        over = beyond(paid, least.measure)
        return Allocation.infeasible(least.level, least.value, over, np.array([paid]), passes=2)
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
    assign(located.level, located.account, rounded)
    return Allocation(
        status="optimal",
        prices=np.array([price]),
        tie_share=share,
        level=located.level,
        primal=primal,
        dual=dual,
        gap=relative_gap(primal, dual, terms),
        violation=beyond(paid, measured),
        spend=np.array([paid]),
        rounded=worth + float(pick(points.value, rounded).sum()),
        tied=int(np.count_nonzero(cheap != dear)),
        passes=located.passes,
    )
