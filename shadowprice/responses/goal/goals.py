"""Goals of a campaign as losses: the value at a budget (S4), and the Lagrangian at given prices (DFCL)."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from shadowprice.checks import require
from shadowprice.responses.goal.estimator import GradientEstimator, hard_matched
from shadowprice.responses.goal.path import OutcomePath, outcome_path
from shadowprice.responses.goal.trial import GoalRows


@dataclass(frozen=True, eq=False)
class Credit:
    """One price of a goal: what each row adds to the goal by being matched.

    gain (n,): ∂goal/∂m_i, where m_i says whether the decision at ``price`` is the level the row was given
    """

    price: float
    gain: Tensor


class Goal(ABC):
    """A number to be maximized, computed from predictions on the rows of a trial."""

    @abstractmethod
    def credits(self, value: Tensor, cost: Tensor, trial: GoalRows, estimator: GradientEstimator) -> Iterator[Credit]:
        """The derivative with respect to every row's decision, at every price of the goal."""

    @abstractmethod
    def measure(self, value: Tensor, cost: Tensor, trial: GoalRows) -> float:
        """The goal itself, with hard decisions, for choosing between epochs."""

    def loss(self, value: Tensor, cost: Tensor, trial: GoalRows, estimator: GradientEstimator) -> Tensor:
        """A scalar whose gradient with respect to ``value`` and ``cost`` (n, J) is the estimate of −∂goal.

        Prices and credits are constants; only the scores v − λ·c carry a gradient.
        """
        total = value.new_zeros(())
        with torch.no_grad():
            credits = [
                (credit.price, credit.gain[:, None] * estimator.gradient(value - credit.price * cost, trial.level))
                for credit in self.credits(value, cost, trial, estimator)
            ]
        for price, gradient in credits:
            total = total - (gradient * (value - price * cost)).sum()
        return total


class BudgetGoal(Goal):
    """Mean over budgets b of V(b): the value of the decisions at the price that spends b per row (S4).

    The price of each budget is found on the rows at hand and moves with the predictions so that the spend stays at b:
    by the implicit function theorem the derivative is ∂V − κ·∂C with κ = dV/dC along the path.

    Args:
        budgets: mean cost per row, units of the cost.
    """

    def __init__(self, budgets: Sequence[float]) -> None:
        require(budgets, "budgets", "needs at least one budget")
        self.budgets = tuple(float(budget) for budget in budgets)

    def credits(self, value: Tensor, cost: Tensor, trial: GoalRows, estimator: GradientEstimator) -> Iterator[Credit]:
        """w·((y − V) − κ·(c − C)) / Σ w·m: the derivative of a ratio takes its mean off."""
        path = outcome_path(value, cost, trial)
        for budget in self.budgets:
            price, worth = path.price(budget), path.worth(budget)
            weight = trial.weight * estimator.matched(value - price * cost, trial.level)
            net = trial.net(worth)
            total = weight.sum()
            if total <= 0:
                continue
            yield Credit(price, trial.weight * (net - (weight * net).sum() / total) / (total * len(self.budgets)))

    def measure(self, value: Tensor, cost: Tensor, trial: GoalRows) -> float:
        """Mean over the budgets of V(b), interpolated along the path."""
        path = outcome_path(value, cost, trial, prices=64)
        return sum(value_at(path, budget) for budget in self.budgets) / len(self.budgets)


class LagrangianGoal(Goal):
    """Mean over prices λ of V(λ) − λ·C(λ), the dual decision loss of DFCL (Zhou et al., KDD 2024).

    Args:
        prices: λ, value per unit of cost.
        ratio: divide by the matched weight (Hájek), as the finite difference does; else by the rows
            (Horvitz–Thompson), as policy learning does.
    """

    def __init__(self, prices: Sequence[float], *, ratio: bool = False) -> None:
        require(prices, "prices", "needs at least one price")
        self.prices = tuple(float(price) for price in prices)
        self.ratio = ratio

    def credits(self, value: Tensor, cost: Tensor, trial: GoalRows, estimator: GradientEstimator) -> Iterator[Credit]:
        """w·(y − λ·c), its mean taken off where the goal is a ratio."""
        for price in self.prices:
            net = trial.net(price)
            if self.ratio:
                weight = trial.weight * estimator.matched(value - price * cost, trial.level)
                total = weight.sum()
                if total <= 0:
                    continue
                gain = trial.weight * (net - (weight * net).sum() / total) / total
            else:
                gain = trial.weight * net / len(net)
            yield Credit(price, gain / len(self.prices))

    def measure(self, value: Tensor, cost: Tensor, trial: GoalRows) -> float:
        """Mean over the prices of the Hájek value less λ times the cost."""
        total = 0.0
        for price in self.prices:
            matched = trial.weight * hard_matched(value - price * cost, trial.level)
            lagrangian = (matched * trial.net(price)).sum() / matched.sum().clamp(min=1e-12)
            total += float(lagrangian + (trial.value_baseline - price * trial.cost_baseline).mean())
        return total / len(self.prices)


def value_at(path: OutcomePath, budget: float) -> float:
    """V at the price that spends ``budget``, interpolated; at an end where the budget is out of range."""
    price = path.price(budget)
    right = int(torch.searchsorted(path.prices, price).clamp(1, max(len(path.prices) - 1, 1)))
    if len(path.prices) == 1:
        return float(path.value[0])
    low, high = float(path.prices[right - 1]), float(path.prices[right])
    share = min(max((price - low) / (high - low), 0.0), 1.0)
    return float((1 - share) * path.value[right - 1] + share * path.value[right])
