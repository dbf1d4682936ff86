"""One budget, exactly: sort the critical prices of all accounts and walk down to the budget.

As the price of money λ falls from infinity, an account's best level climbs the upper hull of its
(cost, value) points, one edge at a time, at the edge's slope Δvalue/Δcost. Buying edges in order
of slope until the budget is met is the greedy optimum of the linear relaxation of the
multiple-choice knapsack (Sinha and Zoltners 1979); the slope of the last edge is λ*.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.kernel import NetCost, Tile
from shadowprice.allocation.kernel.plain import climb
from shadowprice.allocation.problem.problem import Matrix, Problem
from shadowprice.allocation.problem.solution import ROUNDING, Allocation, fill, pick, relative_excess, relative_gap
from shadowprice.decision import best_levels


def solve_breakpoints(problem: Problem) -> Allocation:
    """Exact optimum for one resource of any form.

    O(J²·N) to climb the hulls and O(JN·log JN) to sort; memory a few times the input.

    Raises:
        InvalidProblem: not exactly one resource.
    """
    resource = problem.only_budget("breakpoints")
    problem.check(resource)
    value = problem.value.astype(np.float64)
    paid = problem.paid(resource)
    measure = problem.measure(resource)
    cost = paid - resource.limit * measure
    capacity = problem.capacity(resource)
    allowed = np.ones(problem.shape, dtype=bool) if problem.allowed is None else problem.allowed

    def allocation(
        status: str, price: float, dual: float, share: float, cheap: NDArray[np.intp], dear: NDArray[np.intp]
    ) -> Allocation:
        def mixed(matrix: Matrix) -> float:
            low, high = pick(matrix, cheap).sum(), pick(matrix, dear).sum()
            return float(low + share * (high - low))

        terms = price * abs(capacity) + sum(
            np.abs(pick(value, end)).sum() + price * np.abs(pick(cost, end)).sum() for end in (cheap, dear)
        )
        level = fill(pick(cost, cheap), pick(cost, dear), cheap, dear, capacity)
        primal = mixed(value)
        return Allocation(
            status="optimal" if status == "optimal" else "infeasible",
            prices=np.array([price]),
            tie_share=share,
            level=level,
            primal=primal,
            dual=dual,
            gap=relative_gap(primal, dual, float(terms)),
            violation=relative_excess(problem, resource, mixed(paid), mixed(measure)),
            spend=np.array([mixed(paid)]),
            rounded=float(pick(value, level).sum()),
            tied=int(np.count_nonzero(cheap != dear)),
            rounded_violation=relative_excess(
                problem, resource, float(pick(paid, level).sum()), float(pick(measure, level).sum())
            ),
        )

    one = NetCost(np.zeros(value.shape[0]), (np.ones(value.shape[0]),))
    edges = climb(Tile(value, (cost,), None, allowed), one, np.ones(1), 0.0, np.inf)
    cheapest, slope, step = edges.first.astype(np.intp), edges.slope, edges.step
    start = float(pick(cost, cheapest).sum())
    scale = max(abs(capacity), float(np.abs(pick(cost, cheapest)).sum()))
    if start > capacity + ROUNDING * scale:
        return allocation("infeasible", np.nan, -np.inf, 0.0, cheapest, cheapest)

    order = np.argsort(-slope, kind="stable")
    filled = start + np.cumsum(step[order])
    over = np.flatnonzero(filled > capacity + ROUNDING * max(scale, float(np.abs(filled).max(initial=0.0))))
    price = float(slope[order[over[0]]]) if over.size else 0.0

    cheap, dear = best_levels(value, price * cost, cost, allowed)
    if price == 0.0:
        dear = cheap
    low, high = pick(cost, cheap).sum(), pick(cost, dear).sum()
    share = float(np.clip((capacity - low) / (high - low), 0.0, 1.0)) if high > low else 0.0
    dual = price * capacity + float((pick(value, cheap) - price * pick(cost, cheap)).sum())
    # Of two tied levels either may hold the larger floating-point score; the bound takes the larger.
    dual += float(
        np.maximum(0.0, pick(value, dear) - pick(value, cheap) - price * (pick(cost, dear) - pick(cost, cheap))).sum()
    )
    return allocation("optimal", price, dual, share, cheap, dear)
