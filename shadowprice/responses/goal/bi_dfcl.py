"""Bi-level decision-focused causal learning from observational and trial rows (Bi-DFCL; NeurIPS 2025).

    upper   φ:  minimize −goal(θ*(φ)) on the trial
    lower   θ*(φ) = argmin_θ  prediction loss on all rows: what was observed at the level given, and at every other
            level a pseudo-label  g_φ(x)·target(x) + (1 − g_φ(x))·teacher(x)

The teacher is fitted on the trial and has little bias and much variance; the target, on many confounded rows, the
reverse. The bridge's gates g mix both for each account. At serving only the target is left.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from shadowprice.responses.goal.end_to_end import EndToEndModel
from shadowprice.responses.goal.goals import Goal
from shadowprice.responses.goal.implicit import flat, hypergradient
from shadowprice.responses.goal.model import goal_unit
from shadowprice.responses.training.config import TrainingConfig
from shadowprice.responses.training.loop import BestEpoch, train_epochs
from shadowprice.responses.uplift.networks import OutcomeNetwork
from shadowprice.responses.uplift.two_outcome import LabeledRows

ROUNDS = TrainingConfig(learning_rate=2e-2, epochs=40, patience=15)
LARGEST_LOWER = 20_000
"""Rows of the lower problem in a round: every product with its Hessian goes over all of them twice."""

INNER_STEPS = 5
"""Gradient steps on the lower problem between two of the bridge."""
SOLVER_STEPS = 5
"""Conjugate-gradient steps of the implicit differentiation."""


class BridgeNetwork(nn.Module):
    """Features (n, D) → gates (n, K, J) in (0, 1): the share of the target in a pseudo-label."""

    def __init__(self, inputs: int, outcomes: int, levels: int, hidden: int) -> None:
        super().__init__()
        self.shape = (outcomes, levels)
        self.net = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outcomes * levels))

    def forward(self, x: Tensor) -> Tensor:
        """(n, K, J)."""
        out: Tensor = self.net(x).sigmoid().view(-1, *self.shape)
        return out


class BiDfclModel(EndToEndModel):
    """Bi-DFCL with the primal losses: the value at the budgets' own prices, by policy learning (PPL) or, with
    ``estimator="ifd"``, by finite difference (PIFD).

    Rows with ``exploration`` false are observational. Without such rows (or without the column) the trial's
    rows are the lower problem's too.

    Options:
        fine_tuning: epochs are rounds of inner steps and one step of the bridge, whose learning rate it holds.
        others: see :class:`~shadowprice.responses.goal.model.GoalModel`.
    """

    def __init__(
        self, levels: Sequence[int], seed: int = 0, *, fine_tuning: TrainingConfig | None = None, **options: Any
    ) -> None:
        super().__init__(levels, seed, fine_tuning=fine_tuning or ROUNDS, **options)

    def learn(self, network: OutcomeNetwork, train: LabeledRows, held_out: LabeledRows) -> None:
        """Teacher on the trial, target on everything, then rounds of both levels."""
        teacher = deepcopy(network)
        drawn, judged_rows = train.take(train.drawn), self.judged_rows(train, held_out)
        self.learn_predictions(teacher, drawn, judged_rows)
        self.learn_predictions(network, train, held_out)
        trial, judged = self.trial(drawn), self.trial(judged_rows)
        with torch.no_grad():
            predictions = self.expected(network(drawn.x))
        goal, unit = self.goal(*predictions, trial), goal_unit(*predictions, trial)
        rounds = _Rounds(self, network, teacher, train, drawn, goal, unit)
        train_epochs(
            network,
            lambda _: rounds.run(),
            lambda: -goal.measure(*self.expected(network(judged_rows.x)), judged),
            replace(self.fine_tuning, seed=self.seed),
            carried=[rounds.bridge, rounds.inner, rounds.outer, rounds.random],
            progress=self.progress,
            best=BestEpoch(keep_start=True),
        )
        self.recalibrate(network, judged_rows)


class _Rounds:
    """The state that alternates: the target's optimizer and the bridge's."""

    def __init__(
        self,
        model: BiDfclModel,
        target: OutcomeNetwork,
        teacher: OutcomeNetwork,
        train: LabeledRows,
        drawn: LabeledRows,
        goal: Goal,
        unit: float,
    ) -> None:
        self.model, self.target, self.goal, self.unit = model, target, goal, unit
        self.train, self.drawn, self.trial = train, drawn, model.trial(drawn)
        self.bridge = BridgeNetwork(train.x.shape[1], len(model.kinds), model.levels.size, model.hidden)
        with torch.no_grad():
            self.taught = self._expected(teacher(train.x))
        self.inner = torch.optim.Adam(target.parameters(), lr=model.training.learning_rate)
        self.outer = torch.optim.Adam(self.bridge.parameters(), lr=model.fine_tuning.learning_rate)
        self.random = torch.Generator().manual_seed(model.seed)

    def run(self) -> float:
        """Inner steps, then one step of the bridge; returns the lower loss."""
        rows = len(self.train)
        index = torch.arange(rows)
        if rows > LARGEST_LOWER:
            index = torch.randperm(rows, generator=self.random)[:LARGEST_LOWER]
        self.target.train()
        with torch.no_grad():
            own = self._expected(self.target(self.train.x[index]))
        lower = self.lower(index, own)
        for _ in range(INNER_STEPS):
            self.inner.zero_grad()
            lower.backward()  # type: ignore[no-untyped-call]
            self.inner.step()
            lower = self.lower(index, own)
        inner, outer = list(self.target.parameters()), list(self.bridge.parameters())
        upper = self.goal.loss(*self.model.expected(self.target(self.drawn.x)), self.trial, self.model.estimator)
        slope = flat(torch.autograd.grad(upper / self.unit, inner, allow_unused=True), inner).detach()
        gradients = hypergradient(lower, slope, inner, outer, steps=SOLVER_STEPS)
        for parameter, gradient in zip(outer, gradients, strict=True):
            parameter.grad = gradient
        self.outer.step()
        return float(lower.detach())

    def lower(self, index: Tensor, own: Tensor) -> Tensor:
        """Mean over rows of the factual loss, plus that of the mean over the other levels against pseudo-labels."""
        rows = self.train.take(index)
        raw = self.target(rows.x)
        gate = self.bridge(rows.x)
        label = gate * own + (1 - gate) * self.taught[index]
        others = torch.ones_like(raw[:, 0]).scatter(1, rows.level[:, None], 0.0) / (raw.shape[2] - 1)
        total = self.model.prediction_loss(raw, rows)
        for k, kind in enumerate(self.model.kinds):
            lost = kind.loss(raw[:, k], label[:, k])
            total = total + ((lost * others).sum(dim=1) * rows.weight).sum() / rows.weight.sum()
        return total

    def _expected(self, raw: Tensor) -> Tensor:
        return torch.stack([k.expected(r) for k, r in zip(self.model.kinds, raw.unbind(1), strict=True)], dim=1)
