"""Randomised rows as a goal sees them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Trial:
    """n rows whose level was drawn with a known probability.

    level  int64 (n,), index of the assigned level
    value  (n,), what the row brought; cost (n,), what it took
    weight (n,), 1 / P(level), clipped, times the row's own weight
    value_baseline, cost_baseline (n,), anything that depends on the row but not on its level: taking it off
           leaves every expectation and removes the variance between rows, which is often most of it
    """

    level: Tensor
    value: Tensor
    cost: Tensor
    weight: Tensor
    value_baseline: Tensor
    cost_baseline: Tensor

    def take(self, index: Tensor) -> Trial:
        """The rows at ``index``."""
        return Trial(**{name: column[index] for name, column in vars(self).items()})

    def with_baseline(self, value: Tensor, cost: Tensor) -> Trial:
        """The same rows with other baselines."""
        return Trial(self.level, self.value, self.cost, self.weight, value, cost)

    @classmethod
    def of(cls, level: Tensor, value: Tensor, cost: Tensor, weight: Tensor) -> Trial:
        """Rows without baselines: that of every row is 0."""
        return cls(level, value, cost, weight, torch.zeros_like(value), torch.zeros_like(cost))
