"""Spend of a policy by rows that its model has not learned from, beside the spend that its curves expect.

A policy prefers the accounts and levels whose cost its curves underrate, so that its incentives cost more than these
curves expect, even where the curves are right in the mean of all accounts.

Source: Smith and Winkler (2006), The optimizer's curse, Management Science 52.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.campaign import Side
from shadowprice.documents import Plain
from shadowprice.evaluation.policy.frontier import RandomizedRows, spread, step_worth
from shadowprice.evaluation.policy.off_policy import importance
from shadowprice.evaluation.prediction.per_level import check_index
from shadowprice.evaluation.statistics.clusters import together
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.statistics.totals import StratifiedTotals
from shadowprice.policy import Choices

PRIOR = 0.5
"""Standard deviation of the ratio around 1 before any row: so wide that only a few hundred rows let it matter."""
LARGEST = 4.0
"""The ratio stays within this factor of 1."""
NORMAL = 1.96
ROUNDS, CLOSE = 6, 1e-3
"""Solves of :func:`solve_within`, at most, and the relative change of the ratio that ends them."""

Solved = TypeVar("Solved")


@dataclass(frozen=True)
class HeldOutSpend(Plain):
    """Mean cost of a request of one side at L prices of money, minor units.

    price     (L,), ascending
    expected  (L,), by the curves
    paid      (L,), by the outcomes of held-out rows
    error     (L,), standard error of ``paid``, clustered by account and partner
    rows      number of held-out rows
    """

    price: tuple[float, ...]
    expected: tuple[float, ...]
    paid: tuple[float, ...]
    error: tuple[float, ...]
    rows: int

    def at(self, price: float) -> NDArray[np.float64]:
        """(3,): ``expected``, ``paid`` and ``error`` at a price, linear between those that are known."""
        return np.array([np.interp(price, self.price, column) for column in (self.expected, self.paid, self.error)])


def held_out_spend(
    trials: Mapping[Side, RandomizedRows],
    held_out: Mapping[Side, NDArray[np.bool_]],
    allowed: Mapping[Side, NDArray[np.bool_] | None],
) -> dict[Side, HeldOutSpend]:
    """Estimate what policies at 40 prices pay on rows that their model has not learned from.

    Args:
        trials: side → rows of a trial, with the value and cost (J, n) that the model's curves expect of them.
        held_out: side → (n,), rows that the model has not learned from. Of the others only the mean error of each level
            is read, by which a model does not fit its rows too closely: as many rows as there are tell it.
        allowed: side → bool (J, n), levels that rules allow; None: all.

    With the error e = (cost − expected cost) / propensity of a row, and the rows H held out, a policy π pays beyond the
    expectation

        Σ_H e·(1[level = π] − β_level) / |H| + Σ e·β_level / n

    where β of a level is the share of its Σ_H e² in rows at which π chooses it. β = 0 is the doubly robust estimate by
    the held-out rows alone, and this one has the least variance (control variates). O(n · (J + 40)) for n rows.
    """
    expected = {side: _expected(trial) for side, trial in trials.items()}
    prices = spread(np.concatenate([step_worth(*pair) for pair in expected.values()]))[::-1]
    found = {}
    for side, (value, cost) in expected.items():
        trial, held, rows = trials[side], held_out[side], np.arange(cost.shape[1])
        level, choices = check_index(trial.level, len(cost)), Choices(value, cost, allowed[side])
        error = (_real(trial.cost) - cost[level, rows]) * importance(np.ones(rows.size), _real(trial.propensity))
        square, mean, beyond = np.bincount(level, held * error**2, minlength=len(cost)), [], []
        for price in prices:
            chosen = choices.decide([price], 0.5, rows).level
            own = held * (chosen == level)
            hit = np.bincount(level, own * error**2, minlength=len(cost))
            share = np.divide(hit, square, where=square > 0, out=np.zeros_like(hit))[level]
            mean.append(float(cost[chosen, rows][held].mean()))
            beyond.append(error * (share + (own - held * share) * rows.size / held.sum()))
        cells, first = together(rows.size, trial.account, trial.partner, fields=("account", "partner"))
        account = first if trial.account is None else np.asarray(trial.account)[first]
        partner = None if trial.partner is None else np.asarray(trial.partner)[first]
        sums = np.stack([cells.sums(score) for score in beyond], axis=1)
        total = StratifiedTotals([cells.sums(np.ones(rows.size))], [1.0], account, partner).of([sums])
        columns = prices, np.array(mean), np.array(mean) + total.value, np.sqrt(total.variance)
        found[side] = HeldOutSpend(*(tuple(column.tolist()) for column in columns), rows=int(held.sum()))
    return found


def spend_ratio(spend: Mapping[Side, HeldOutSpend], requests: Mapping[Side, float], price: float) -> Estimate:
    """Minor units paid per minor unit that the curves expect at a price, with an interval.

    Args:
        spend: side → spend of held-out rows.
        requests: side → requests that are decided.
        price: of money.

    Returns:
        The mean of the normal law of the ratio given the rows, before which it is 1 ± :data:`PRIOR`: few rows change
        little. 1 where the curves expect no spend, or no side has held-out rows.
    """
    known = [(requests.get(side, 0.0), own.at(price)) for side, own in spend.items()]
    expected, paid = (sum(n * float(own[place]) for n, own in known) for place in range(2))
    if not expected > 0:
        return Estimate(1.0, 1.0, 1.0)
    error = math.sqrt(sum((n * float(own[2])) ** 2 for n, own in known)) / expected
    weight = PRIOR**2 / (PRIOR**2 + error**2)
    value, half = 1 + weight * (paid / expected - 1), NORMAL * math.sqrt(weight) * error
    low, middle, high = (min(max(end, 1 / LARGEST), LARGEST) for end in (value - half, value, value + half))
    return Estimate(middle, low, high)


def solve_within(
    solve: Callable[[float], Solved], price_of: Callable[[Solved], float], ratio_at: Callable[[float], Estimate]
) -> tuple[Solved, Estimate]:
    """Solve so that the money really paid, not that expected by the curves, meets the budget.

    Args:
        solve: solves with the money divided by a ratio.
        price_of: gives the price of a solution.
        ratio_at: gives the ratio at a price, :func:`spend_ratio`.

    Returns:
        The solution, and the ratio that its money was divided by, with the interval at its price.

    The price depends on the ratio and the ratio on the price: each solve takes the geometric mean of the ratios before.
    """
    ratio = 1.0
    for _ in range(ROUNDS):
        solved = solve(ratio)
        found = ratio_at(price_of(solved))
        if abs(found.value / ratio - 1) <= CLOSE:
            break
        ratio = found.value if ratio == 1.0 else math.sqrt(ratio * found.value)
    else:
        solved = solve(ratio)
        found = ratio_at(price_of(solved))
    return solved, found.times(ratio / found.value)


def _expected(trial: RandomizedRows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    value, cost = (_real(own) for own in (trial.expected_value, trial.expected_cost))
    return value, cost


def _real(values: ArrayLike | None) -> NDArray[np.float64]:
    assert values is not None, "trials of a model have its expectations"
    return np.asarray(values, dtype=np.float64)
