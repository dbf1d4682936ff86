"""Decision-focused causal learning: the Lagrangian of the budget as a loss (DFCL; Zhou et al., KDD 2024)."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch import Tensor

from shadowprice.responses.goal.goals import Goal, LagrangianGoal
from shadowprice.responses.goal.model import GoalModel, default_budgets
from shadowprice.responses.goal.path import outcome_path
from shadowprice.responses.goal.trial import GoalRows


class DfclModel(GoalModel):
    """DFCL (Zhou et al., KDD 2024): the Lagrangian at given prices as decision loss.

    Options:
        prices: λ; by default those that spend the default budgets at the warm start.
        others: see :class:`GoalModel`.
    """

    ratio: ClassVar[bool] = False
    preset: ClassVar[Mapping[str, Any]] = {}
    """Options of a variant where the caller gives none."""

    def __init__(
        self,
        levels: Sequence[int],
        seed: int = 0,
        *,
        prices: Sequence[float] = (),
        baseline: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(levels, seed, baseline=baseline, **{**self.preset, **options})
        self.prices = tuple(prices)

    def goal(self, value: Tensor, cost: Tensor, trial: GoalRows) -> Goal:
        """V − λ·C over the prices."""
        path = outcome_path(value, cost, trial)
        prices = self.prices or [path.price(budget) for budget in default_budgets(value, cost)]
        return LagrangianGoal(prices, ratio=self.ratio)


class DfclPolicyModel(DfclModel):
    """DFCL-PL: the policy draws levels with odds exp(v − λ·c), temperature 1 in units of the score."""

    preset: ClassVar[Mapping[str, Any]] = {"estimator": "softmax", "estimator_options": {"width": 1.0}}


class DfclEntropyModel(DfclModel):
    """DFCL-MER: the maximum-entropy relaxation, softmax((v − λ·c)/τ) with a small τ."""

    preset: ClassVar[Mapping[str, Any]] = {"estimator": "softmax", "estimator_options": {"width": 0.25}}


class DfclDifferenceModel(DfclModel):
    """DFCL-IFD: the improved finite difference of the matched rows' mean."""

    ratio = True
    preset: ClassVar[Mapping[str, Any]] = {"estimator": "ifd"}
