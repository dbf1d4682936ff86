"""One budget, exactly: sort the critical prices of all accounts and walk down to the budget.

As the price of money λ falls from infinity, an account's best level climbs the upper hull of its
(cost, value) points, one edge at a time, at the edge's slope Δvalue/Δcost. Buying edges in order
of slope until the budget is met is the greedy optimum of the linear relaxation of the
multiple-choice knapsack (Sinha and Zoltners 1979); the slope of the last edge is λ*.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.problem import Matrix, Problem
from shadowprice.allocation.solution import Allocation, pick, relative_excess
from shadowprice.decision import best_levels
from shadowprice.errors import InvalidProblem

ROUNDING = 1e-12
"""Relative slack that sums of money are allowed for floating point."""


def solve_breakpoints(problem: Problem) -> Allocation:
    """Exact optimum for one resource of any form.

    O(J²·N) to climb the hulls and O(JN·log JN) to sort; memory a few times the input.

    Raises:
        InvalidProblem: not exactly one resource.
    """
    if len(problem.resources) != 1:
        raise InvalidProblem(
            f"solver 'breakpoints' takes exactly one budget, got {len(problem.resources)}", field="resources"
        )
    resource = problem.resources[0]
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
        level = _fill(pick(cost, cheap), pick(cost, dear), cheap, dear, capacity)
        primal = mixed(value)
        return Allocation(
            status="optimal" if status == "optimal" else "infeasible",
            prices=np.array([price]),
            tie_share=share,
            level=level,
            primal=primal,
            dual=dual,
            gap=_relative_gap(primal, dual, float(terms)),
            violation=relative_excess(problem, resource, mixed(paid), mixed(measure)),
            spend=np.array([mixed(paid)]),
            rounded=float(pick(value, level).sum()),
            tied=int(np.count_nonzero(cheap != dear)),
        )

    cheapest, slope, step = _climb(value, cost, allowed)
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


def _relative_gap(primal: float, dual: float, terms: float) -> float:
    """(dual − primal) / |dual|; a difference that is rounding in the dual's own terms counts as none.

    Without that an optimum of zero would show a gap of one.
    """
    if not np.isfinite(dual):
        return np.inf
    return 0.0 if abs(dual - primal) <= ROUNDING * terms else (dual - primal) / abs(dual)


def _climb(
    value: Matrix, cost: Matrix, allowed: NDArray[np.bool_]
) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
    """The cheapest level of each account, and slope and cost of every hull edge above it."""
    accounts = np.arange(value.shape[1])
    lowest = np.where(allowed, cost, np.inf).min(axis=0)
    current = np.where(allowed & (cost == lowest), value, -np.inf).argmax(axis=0)
    cheapest = current.copy()
    slopes: list[NDArray[np.float64]] = []
    steps: list[NDArray[np.float64]] = []
    while accounts.size:
        gain = value[:, accounts] - value[current, accounts]
        extra = cost[:, accounts] - cost[current, accounts]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            steep = np.where(allowed[:, accounts] & (extra > 0) & (gain > 0), gain / extra, -np.inf)
        best = steep.max(axis=0)
        further = np.where(steep == best, extra, -np.inf).argmax(axis=0)
        rises = best > 0
        slopes.append(best[rises])
        steps.append(extra[further, np.arange(accounts.size)][rises])
        accounts, current = accounts[rises], further[rises]
    return cheapest, np.concatenate(slopes), np.concatenate(steps)


def _fill(
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    cheap: NDArray[np.intp],
    dear: NDArray[np.intp],
    capacity: float,
) -> NDArray[np.int32]:
    """Round the tie share: tied accounts take the dearer level, smallest step first, while the budget lasts."""
    level = cheap.astype(np.int32)
    rows = np.flatnonzero(cheap != dear)
    rows = rows[np.argsort((high - low)[rows], kind="stable")]
    left = capacity - float(low.sum())
    fits = rows[np.cumsum((high - low)[rows]) <= left]
    level[fits] = dear[fits]
    return level
