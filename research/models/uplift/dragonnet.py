"""DragonNet: a representation that predicts the level too, and targeted regularization (Shi, Blei, Veitch 2019)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from shadowprice.checks import require
from shadowprice.responses.tabular.rows import TabularInputs
from shadowprice.responses.training.processes import this_process
from shadowprice.responses.uplift.networks import ArmLinear, OutcomeNetwork
from shadowprice.responses.uplift.two_outcome import LabeledRows, TwoOutcomeModel, columns_of

LEAST_PROPENSITY = 0.02


class DragonTrunk(OutcomeNetwork):
    """A shared representation (n, H) with heads for outcomes and propensity, and an ε per outcome and level."""

    def __init__(self, inputs: int, levels: int, outcomes: int, hidden: int) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.head = ArmLinear(levels, hidden, hidden)
        self.out = ArmLinear(levels, hidden, outcomes)
        self.propensity = nn.Linear(hidden, levels)
        self.epsilon = nn.Parameter(torch.zeros(outcomes, levels))

    def outcomes(self, representation: Tensor) -> Tensor:
        """(n, K, J)."""
        h = torch.relu(self.head(representation[:, None, :].expand(-1, self.head.levels, -1)))
        out: Tensor = self.out(h).transpose(1, 2)
        return out

    def forward(self, x: Tensor) -> Tensor:
        return self.outcomes(self.trunk(x))


class DragonNetModel(TwoOutcomeModel):
    """Prediction loss + α·cross-entropy of the level + β·Σ_k (y_k − q_k(x, t) − ε_kt / g_t(x))².

    The last term is the targeted regularization, for any number of levels: at its optimum in ε every level's
    mean solves the efficient estimating equation. g is the network's own propensity, cut at 0.02; squares
    are in units of the outcome's scale. The curve is q itself.

    Options:
        alpha: weight of the propensity; beta: of the targeted regularization.
        others: see :class:`~shadowprice.responses.uplift.two_outcome.TwoOutcomeModel`.
    """

    def __init__(
        self, levels: Sequence[int], seed: int = 0, *, alpha: float = 0.2, beta: float = 0.2, **options: Any
    ) -> None:
        super().__init__(levels, seed, **options)
        require(alpha >= 0, "alpha", "must not be negative")
        require(beta >= 0, "beta", "must not be negative")
        self.alpha = alpha
        self.beta = beta

    def build(self, inputs: TabularInputs) -> OutcomeNetwork:
        """The trunk with its three kinds of heads."""
        return DragonTrunk(columns_of(inputs), self.levels.size, len(self.kinds), self.hidden)

    def loss(self, network: OutcomeNetwork, rows: LabeledRows, _epoch: int) -> Tensor:
        assert isinstance(network, DragonTrunk)
        representation = network.trunk(rows.x)
        raw, logits = network.outcomes(representation), network.propensity(representation)
        weight = rows.weight / this_process().share(rows.weight.sum())
        assignment = (nn.functional.cross_entropy(logits, rows.level, reduction="none") * weight).sum()
        targeted = self._targeted(raw, logits, network.epsilon, rows)
        return self.prediction_loss(raw, rows) + self.alpha * assignment + self.beta * (targeted * weight).sum()

    def _targeted(self, raw: Tensor, logits: Tensor, epsilon: Tensor, rows: LabeledRows) -> Tensor:
        chance = logits.softmax(dim=1).gather(1, rows.level[:, None]).squeeze(1).clamp(min=LEAST_PROPENSITY)
        total = torch.zeros_like(chance)
        for k, kind in enumerate(self.kinds):
            q = kind.expected(raw[:, k].gather(1, rows.level[:, None]).squeeze(1)) / kind.scale
            error = rows.outcomes[:, k] / kind.scale - q - epsilon[k, rows.level] / chance
            total = total + error.square()
        return total
