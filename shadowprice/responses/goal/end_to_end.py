"""End to end under a budget (S4; Yan et al., arXiv 2302.04477): the outcome metric as a regularizer."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from shadowprice.responses.goal.goals import BudgetGoal, Goal
from shadowprice.responses.goal.model import GoalModel, default_budgets
from shadowprice.responses.goal.trial import GoalRows


class EndToEndModel(GoalModel):
    """S4: the outcome metric over a set of budgets as a regularizer of the prediction loss.

    Options:
        budgets: mean cost per row; by default five between the least spend and that without a budget.
        others: see :class:`GoalModel`.
    """

    def __init__(self, levels: Sequence[int], seed: int = 0, *, budgets: Sequence[float] = (), **options: Any) -> None:
        super().__init__(levels, seed, **options)
        self.budgets = tuple(budgets)

    def goal(self, value: Tensor, cost: Tensor, _trial: GoalRows) -> Goal:
        """V(b) over the budgets."""
        return BudgetGoal(self.budgets or default_budgets(value, cost))
