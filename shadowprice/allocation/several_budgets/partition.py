"""The prices of several limits by brackets: guess, settle the accounts beyond doubt, solve the others exactly.

The guess comes with its error, hence with an interval for the price of every pattern. One pass finds the accounts
whose best level is the same in all of it; they are added to sums. The amounts left for the others are then known
exactly, so Newton steps and a much smaller bracket leave an active set of a few hundred, which is solved to its vertex.
A vertex outside its bracket needs a wider one, which costs a pass, or next to nothing inside a pass.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.kernel.arguments import Matrix, level_type
from shadowprice.allocation.population.mapped import assign
from shadowprice.allocation.population.population import InMemory, Population
from shadowprice.allocation.several_budgets.active_set import ActiveSet
from shadowprice.allocation.several_budgets.certificate import Located
from shadowprice.allocation.several_budgets.rows import Rows
from shadowprice.allocation.several_budgets.sample import SampleEstimate, approach, estimate, step
from shadowprice.allocation.several_budgets.vertex import optimum

EXACT = 2048
"""Number of accounts that are solved at once; larger problems are partitioned first."""

ACTIVE = 384
"""Accounts that a bracket inside a pass is meant to leave."""

AIM = 3.0
"""Newton steps that are still to come, from the prices inside a pass to the sides of their bracket."""

CONFIDENCE = 3.5
"""Standard errors from the guess to the sides of its bracket."""

NEAR = 1e-5
"""Newton steps among the unsettled end when they move prices by less than this share of them."""

WIDER = 2.0
"""A bracket that turns out not to hold the prices is replaced by one around those found, so many times as wide."""

MOST_WIDER = 30
"""Passes after which limits count as contradictory, although accounts with one possible level are still settled."""


def locate(population: Population, rows: Rows, near: NDArray[np.float64] | None = None) -> Located:
    """Find the prices at which the dual is lowest.

    ``near`` are prices expected to be close, such as the last hour's.

    One pass over the population when the guess's bracket holds the prices; each miss costs a pass.
    """
    n = population.accounts
    sums = rows.nothing()
    if n <= EXACT:
        return _everyone(population, rows, sums, np.zeros(rows.count) if near is None else near)
    guess = estimate(population, rows, near)
    return _settle(population, rows, sums, guess, CONFIDENCE * guess.deviation(rows))


def _settle(
    population: Population, rows: Rows, sums: Matrix, guess: SampleEstimate, reach: Matrix, inside: bool = False
) -> Located:
    """Settle the accounts that the bracket ``guess ± reach`` settles, and find the optimum on the others."""
    passes = 0
    while True:
        center = rows.prices(guess.prices)
        low, high = np.maximum(center - reach, rows.least), np.minimum(center + reach, rows.most)
        scored = population.settle(rows.costs, low, high)
        passes += 1
        rest = replace(rows, capacity=rows.capacity - rows.taken(scored.sums))
        total = sums + scored.sums
        open_ = InMemory(scored.open)
        if open_.accounts <= EXACT or inside:
            inner = _everyone(open_, rest, total, guess.prices)
        else:
            inner = _inside(open_, rest, total, guess, reach)
        settled = scored.sums[:, -1] > 0
        if inner.vertex.ray is None:
            at = rows.prices(inner.vertex.prices)
            outside = ((at < low) | (at > high)) & settled & rows.loads.any(axis=2)
            if not outside.any():
                break
            guess = replace(guess, prices=inner.vertex.prices)
            reach = np.maximum(reach, np.abs(at - center))
        elif not settled.any() or passes >= MOST_WIDER:
            break
        reach = WIDER**passes * np.maximum(reach, 1e-6 * np.abs(center))
    assert scored.level is not None
    assign(scored.level, scored.account, inner.level)
    account = scored.account[inner.account]
    return replace(inner, rows=rows, account=account, level=scored.level, passes=passes)


def _inside(population: InMemory, rows: Rows, sums: Matrix, guess: SampleEstimate, reach: Matrix) -> Located:
    """The optimum on what a pass left open: its spend is exact, so the bracket can be much smaller."""
    n = population.accounts
    share = float(sums[:, -1].sum() + n) / n
    steeper = replace(guess, slope=guess.slope * share)
    prices, over = approach(population, rows, steeper, NEAR)
    off = step(steeper.slope, over, rows.lower - prices, rows.upper - prices)
    narrow = np.maximum(AIM * np.abs(rows.loads @ off), reach * (ACTIVE / n))
    return _settle(population, rows, sums, replace(guess, prices=prices), narrow, inside=True)


def _everyone(population: Population, rows: Rows, sums: Matrix, start: NDArray[np.float64]) -> Located:
    """The optimum on a population small enough to be solved at once."""
    n = population.accounts
    tile = population.sample(np.zeros(1, dtype=np.int64), n)
    active = ActiveSet.of(tile, rows)
    vertex = optimum(active, rows.capacity, rows.lower, rows.upper, rows.slack(sums), start)
    level = np.zeros(n, dtype=level_type(tile.value.shape[0]))
    return Located(rows, sums, tile, np.arange(n), active, vertex, level, 1)
