"""Value and cost of deciding at each price, on the rows of a trial: the outcome metric inside training."""

from dataclasses import dataclass

import torch
from torch import Tensor

from shadowprice.responses.goal.estimator import hard_matched
from shadowprice.responses.goal.trial import GoalRows

SAMPLE = 4000
"""Rows whose critical prices make the grid."""


@dataclass(frozen=True, eq=False)
class OutcomePath:
    """Hájek means over the matched rows at each of G rising prices.

    prices (G,), from 0; value (G,), cost (G,); matched (G,), total weight of the matched rows
    """

    prices: Tensor
    value: Tensor
    cost: Tensor
    matched: Tensor

    def price(self, budget: float) -> float:
        """Lowest price above which the cost stays within ``budget``, interpolated; the ends where it never crosses."""
        over = (self.cost > budget).nonzero()
        if not len(over):
            return float(self.prices[0])
        last = int(over[-1])
        if last + 1 == len(self.prices):
            return float(self.prices[-1])
        high, low = float(self.cost[last]), float(self.cost[last + 1])
        share = (high - budget) / (high - low)
        return float(self.prices[last] + share * (self.prices[last + 1] - self.prices[last]))

    def worth(self, budget: float) -> float:
        """dV/dC around ``budget``: value of a little more spend. Never negative.

        Weighted least squares over the path; the weights fall with the distance from the budget.
        """
        reach = 0.15 * float(self.cost.max() - self.cost.min())
        if reach <= 0:
            return 0.0
        near = torch.exp(-0.5 * ((self.cost - budget) / reach).square())
        near = near / near.sum()
        cost, value = self.cost - (near * self.cost).sum(), self.value - (near * self.value).sum()
        spread = float((near * cost.square()).sum())
        return max(float((near * cost * value).sum()) / spread, 0.0) if spread > 0 else 0.0


@torch.no_grad()
def outcome_path(value: Tensor, cost: Tensor, trial: GoalRows, prices: int = 32) -> OutcomePath:
    """The path of predictions ``value``, ``cost`` (n, J) on the trial's n rows. O(n·J·prices)."""
    grid = price_grid(value, cost, prices)
    y, c = trial.value - trial.value_baseline, trial.cost - trial.cost_baseline
    rows = []
    for price in grid:
        weight = trial.weight * hard_matched(value - price * cost, trial.level)
        total = weight.sum()
        rows.append(torch.stack([(weight * y).sum() / total, (weight * c).sum() / total, total]))
    means = torch.nan_to_num(torch.stack(rows, dim=1))
    return OutcomePath(grid, means[0] + trial.value_baseline.mean(), means[1] + trial.cost_baseline.mean(), means[2])


def price_grid(value: Tensor, cost: Tensor, prices: int) -> Tensor:
    """0 and quantiles of the prices at which rows would trade one level for another; (G,), rising."""
    step = max(1, len(value) // SAMPLE)
    value, cost = value[::step], cost[::step]
    first, second = torch.triu_indices(value.shape[1], value.shape[1], 1)
    dearer = cost[:, second] - cost[:, first]
    critical = (value[:, second] - value[:, first]) / dearer
    critical = critical[(dearer != 0) & (critical > 0) & critical.isfinite()]
    if not len(critical):
        return value.new_zeros(1)
    ordered = critical.sort().values
    at = torch.linspace(0, len(ordered) - 1, prices - 1).round().long()
    # Beyond the last critical price nobody is given anything dearer than the cheapest level.
    grid: Tensor = torch.cat([value.new_zeros(1), ordered[at], 2 * ordered[-1:]])
    # Prices that coincide would make a step of no width.
    return grid[torch.cat([grid.new_ones(1), grid.diff()]) > 0]
