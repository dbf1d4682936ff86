"""Randomized rows as a goal sees them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class GoalRows:
    """n rows whose level was drawn with a known probability.

    level  int64 (n,), index of the assigned level
    value  (n,), what the row brought; cost (n,), what it took
    weight (n,), 1 / P(level), clipped, times the row's own weight
    value_baseline, cost_baseline (n,), predictions that depend on neither the level nor the outcome of the row.
           Subtracting them leaves every expectation and removes variance between rows; zeros for none
    """

    level: Tensor
    value: Tensor
    cost: Tensor
    weight: Tensor
    value_baseline: Tensor
    cost_baseline: Tensor

    def take(self, index: Tensor) -> GoalRows:
        """The rows at ``index``."""
        return GoalRows(**{name: column[index] for name, column in vars(self).items()})

    def net(self, price: float) -> Tensor:
        """(n,): value less ``price`` times cost, without their baselines."""
        return (self.value - self.value_baseline) - price * (self.cost - self.cost_baseline)
