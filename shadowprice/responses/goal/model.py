"""Two-outcome networks trained jointly for their predictions and for the value of their decisions."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from shadowprice.checks import require, require_one_of
from shadowprice.responses.goal.baseline import row_baselines
from shadowprice.responses.goal.estimator import make_estimator
from shadowprice.responses.goal.goals import Goal
from shadowprice.responses.goal.path import outcome_path
from shadowprice.responses.goal.trial import GoalRows
from shadowprice.responses.training.batches import shuffled
from shadowprice.responses.training.config import TrainingConfig
from shadowprice.responses.training.loop import BestEpoch, GradientDescent
from shadowprice.responses.uplift.networks import NETWORKS, OutcomeNetwork
from shadowprice.responses.uplift.two_outcome import LabeledRows, TwoOutcomeModel

FINE_TUNING = TrainingConfig(learning_rate=2e-3, epochs=150, patience=50, weight_decay=1e-5)
BUDGETS = (0.2, 0.35, 0.5, 0.65, 0.8)
"""Default budgets, as shares of the way from the least spend to the spend without a budget."""


class GoalModel(TwoOutcomeModel):
    """A two-stage fit, then joint training: prediction loss + α·(−goal), α rising from 0 over ``ramp`` epochs.

    The goal is measured on rows whose level was drawn at random (column ``exploration``; all, without it), in units of
    its range over prices at the warm start. It chooses the epoch on the held-out accounts, the warm start included.

    Options:
        network: ``s_learner``, ``t_learner`` or ``shared``.
        estimator: of the gradient through the decision; one of ``goal.estimator_names()``.
        estimator_options: those of the estimator.
        alpha: weight of the goal.
        ramp: epochs until α is reached.
        baseline: subtract from each row's outcome a prediction of its mean over the levels, a control variate.
        folds: of accounts; the baseline of a fold comes from first stages fitted on the other folds.
        fine_tuning: how to train jointly.
        others: see :class:`~shadowprice.responses.uplift.two_outcome.TwoOutcomeModel`.
    """

    def __init__(
        self,
        levels: Sequence[int],
        seed: int = 0,
        *,
        network: str = "s_learner",
        estimator: str = "softmax",
        estimator_options: Mapping[str, Any] | None = None,
        alpha: float = 1.0,
        ramp: int = 10,
        baseline: bool = True,
        folds: int = 3,
        fine_tuning: TrainingConfig | None = None,
        **options: Any,
    ) -> None:
        super().__init__(levels, seed, **options)
        require_one_of(network, sorted(NETWORKS), "network")
        require(self.levels.size > 1, "levels", "a decision needs at least two levels")
        require(alpha >= 0, "alpha", "must not be negative")
        require(folds > 1, "folds", "must be at least 2")
        self.network_name = network  # type: ignore[misc]
        self.estimator = make_estimator(estimator, **(estimator_options or {}))
        self.alpha = alpha
        self.ramp = ramp
        self.baseline = baseline
        self.folds = folds
        self.fine_tuning = fine_tuning or FINE_TUNING

    @abstractmethod
    def goal(self, value: Tensor, cost: Tensor, trial: GoalRows) -> Goal:
        """The goal, given the warm start's predictions (n, J) on the trial's rows."""

    def prepare(self, frame: pd.DataFrame, rows: LabeledRows) -> LabeledRows:
        """Add the row baselines."""
        if not self.baseline or frame["account_id"].nunique() < 2:
            return rows
        baselines = row_baselines(
            frame,
            self.levels.tolist(),
            network=self.network_name,
            hidden=self.hidden,
            training=self.training,
            progress=self.progress,
            folds=self.folds,
            seed=self.seed,
        )
        return replace(rows, baseline=torch.from_numpy(baselines).to(rows.baseline))

    def learn(self, network: OutcomeNetwork, train: LabeledRows, held_out: LabeledRows) -> None:
        """Two stages, then joint training."""
        self.learn_predictions(network, train, held_out)
        self.learn_goal(network, train, held_out)
        self.recalibrate(network, held_out)

    def learn_goal(self, network: OutcomeNetwork, train: LabeledRows, held_out: LabeledRows) -> None:
        """Joint training from the fitted network."""
        start = deepcopy(network).eval()
        judged_rows = self.judged_rows(train, held_out)
        trial, judged = self.trial(train), self.trial(judged_rows)
        with torch.no_grad():
            value, cost = self.expected(start(train.x[train.drawn]))
            goal = self.goal(value, cost, trial.take(train.drawn))
            unit = goal_unit(value, cost, trial.take(train.drawn))

        def loss(index: Tensor, epoch: int) -> Tensor:
            rows = train.take(index)
            raw = network(rows.x)
            value, cost = self.expected(raw)
            alpha = self.alpha * min(1.0, (epoch + 1) / max(self.ramp, 1)) / unit
            drawn = rows.drawn
            lost = goal.loss(value[drawn], cost[drawn], trial.take(index[drawn]), self.estimator)
            return self.prediction_loss(raw, rows) + alpha * lost

        config = replace(self.fine_tuning, seed=self.seed)
        GradientDescent(
            network,
            shuffled(len(train), config),
            loss,
            lambda: -goal.measure(*self.expected(network(judged_rows.x)), judged),
        ).run(config, progress=self.progress, best=BestEpoch(keep_start=True))

    @staticmethod
    def judged_rows(train: LabeledRows, held_out: LabeledRows) -> LabeledRows:
        """Rows that the goal is judged by: those held out whose level was drawn, or where there are none, the trial.

        Raises:
            InvalidInput: the trial has only rows of accounts that are held out.
        """
        few = "the levels that were drawn at random are all of accounts held out; draw those of more accounts"
        require(bool(train.drawn.any()), "exploration", few)
        rows = held_out if bool(held_out.drawn.any()) else train
        return rows.take(rows.drawn)

    @torch.no_grad()
    def recalibrate(self, network: OutcomeNetwork, held_out: LabeledRows) -> None:
        """Shift each outcome's output, alike at all levels, so that its mean over the held-out rows is right.

        Training for the goal lets the common level of the scores drift. A common shift of an amount
        changes no decision; one of a logit next to none.
        """
        raw = network(held_out.x)
        assigned = raw.gather(2, held_out.level[:, None, None].expand(-1, raw.shape[1], 1)).squeeze(2)
        share = held_out.weight / held_out.weight.sum()
        network.shift(
            torch.stack(
                [
                    kind.shift(assigned[:, k], (share * held_out.outcomes[:, k]).sum(), share)
                    for k, kind in enumerate(self.kinds)
                ]
            )
        )

    def trial(self, rows: LabeledRows) -> GoalRows:
        """Return the rows as a goal sees them; without a column ``cost`` a row costs its level."""
        levels = torch.from_numpy(self.levels).to(rows.outcomes)
        cost = rows.outcomes[:, 1] if len(self.kinds) == 2 else levels[rows.level]
        return GoalRows(rows.level, rows.outcomes[:, 0], cost, rows.importance, *rows.baseline.unbind(1))


def default_budgets(value: Tensor, cost: Tensor) -> list[float]:
    """Return :data:`BUDGETS` of the way from the least spend to the spend at the price 0."""
    low = float(cost.min(dim=1).values.mean())
    high = float(cost.gather(1, value.argmax(dim=1, keepdim=True)).mean())
    return [low + share * (high - low) for share in BUDGETS]


def goal_unit(value: Tensor, cost: Tensor, trial: GoalRows) -> float:
    """Range of the value over prices: what decisions can change; the values' spread where they change nothing."""
    path = outcome_path(value, cost, trial)
    reach = float(path.value.max() - path.value.min())
    return reach if reach > 0 else max(float(trial.value.std()), 1e-6)
