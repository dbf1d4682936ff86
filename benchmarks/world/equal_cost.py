"""Policies compared at one true cost: the value of their decisions at the price whose true cost is the budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.evaluation.policy.attainable import Attainable

Array = NDArray[np.floating[Any]]
ROUNDS = 50
HIGHEST = 2.0**20


@dataclass(frozen=True, eq=False)
class Choices:
    """The decisions of one side: N requests with J levels each.

    believed_value, believed_cost  (J, N), by which the levels are chosen
    value, cost                    (J, N), the true means
    """

    believed_value: Array
    believed_cost: Array
    value: Array
    cost: Array

    def at(self, price: float) -> tuple[float, float]:
        """Total true cost and value where every request gets the argmax of value − price·cost, as believed."""
        level = np.argmax(self.believed_value - price * self.believed_cost, axis=0)
        every = np.arange(level.size)
        return float(self.cost[level, every].sum()), float(self.value[level, every].sum())

    def together(self) -> Choices:
        """All requests as one, with the sum of their values and costs at each level."""
        fields = (self.believed_value, self.believed_cost, self.value, self.cost)
        return Choices(*(field.sum(axis=1, keepdims=True) for field in fields))


def value_at_cost(sides: Sequence[Choices], budget: float) -> float:
    """Return the total true value of all sides at the one price whose total true cost is ``budget``.

    Pacing holds the spend whatever a model predicts, so this is the worth of the model's ranking. Between the two
    prices around the budget the value is interpolated. A budget outside the reachable costs gets the nearest one.
    """

    def at(price: float) -> tuple[float, float]:
        cost, value = zip(*(side.at(price) for side in sides), strict=True)
        return sum(cost), sum(value)

    low, high = 0.0, 1e-6
    while high < HIGHEST and at(high)[0] > budget:
        low, high = high, 2 * high
    for _ in range(ROUNDS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if at(middle)[0] > budget else (low, middle)
    (much_paid, much), (little_paid, little) = at(low), at(high)
    share = (budget - little_paid) / (much_paid - little_paid) if much_paid > little_paid else 0.0
    return little + float(np.clip(share, 0.0, 1.0)) * (much - little)


def best_split(sides: Sequence[Choices], budget: float, steps: int = 50) -> float:
    """Return the most value of two sides with a price each, over the shares of the budget in steps of 1/``steps``.

    It needs the outcome of every split, so it is a bound and no policy.
    """
    first, second = sides
    parts = budget * np.arange(steps + 1) / steps
    return max(
        value_at_cost([first], part) + value_at_cost([second], budget - part)
        for part in parts
        if reachable(first, part) and reachable(second, budget - part)
    )


def reachable(side: Choices, budget: float) -> bool:
    """Return whether the cheapest level of every request is within a budget."""
    return side.at(HIGHEST)[0] <= budget * (1 + 1e-9)


def attainable(sides: Sequence[Choices], budget: float) -> Attainable:
    """Return the true values between which decisions at one true cost are judged.

    The best flat mixture treats each side as one account with the mean curve, and the optimum decides by the truth.
    """
    known = [replace(side, believed_value=side.value, believed_cost=side.cost) for side in sides]
    return Attainable(
        lowest=sum(float(side.value[0].sum()) for side in sides),
        flat=value_at_cost([side.together() for side in known], budget),
        best=value_at_cost(known, budget),
    )
