"""Ratio of the money that a policy pays to that which its curves expect, and solves that count the money paid.

A policy prefers the accounts and levels whose cost its curves underrate, so that its incentives cost more than these
curves expect, even where the curves are right in the mean of all accounts.

Source: Smith and Winkler (2006), The optimizer's curse, Management Science 52.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.documents import Plain

PRIOR = 0.5
"""Standard deviation of the ratio around 1 before any row: so wide that only a few hundred rows let it matter."""
LARGEST = 4.0
"""The ratio stays within this factor of 1."""
NORMAL = 1.96
ROUNDS, CLOSE = 6, 1e-3
"""Changes of the ratio in :func:`solve_within`, at most, and the relative one that ends them."""

Solved = TypeVar("Solved")


class Ratio(NamedTuple):
    """Minor units paid per minor unit that the curves expect, with its 95 % interval."""

    value: float
    low: float
    high: float


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


def spend_ratio(spend: Mapping[Side, HeldOutSpend], requests: Mapping[Side, float], price: float) -> Ratio:
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
        return Ratio(1.0, 1.0, 1.0)
    error = math.sqrt(sum((n * float(own[2])) ** 2 for n, own in known)) / expected
    weight = PRIOR**2 / (PRIOR**2 + error**2)
    value, half = 1 + weight * (paid / expected - 1), NORMAL * math.sqrt(weight) * error
    low, middle, high = (min(max(end, 1 / LARGEST), LARGEST) for end in (value - half, value, value + half))
    return Ratio(middle, low, high)


def solve_within(
    solve: Callable[[float], Solved], price_of: Callable[[Solved], float], ratio_at: Callable[[float], Ratio]
) -> tuple[Solved, Ratio]:
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
    for more in reversed(range(ROUNDS + 1)):
        solved = solve(ratio)
        found = ratio_at(price_of(solved))
        if not more or abs(found.value / ratio - 1) <= CLOSE:
            break
        ratio = found.value if ratio == 1.0 else math.sqrt(ratio * found.value)
    return solved, Ratio(*(end * ratio / found.value for end in found))
