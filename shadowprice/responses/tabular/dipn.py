"""DIPN, the deep isotonic promotion network (S1, section 3.2–3.4).

    f(x, d_j) = sigmoid( b(x) + Σ_{k ≤ j} w_k(x) ),    w_k(x) ≥ 0

The bias net gives b, the logit at the lowest level. The uplift net gives the weights by a chain in which each
feeds the next, w_k = softplus(A_k·z + a_k·w_{k−1} + c_k), z being the features' embeddings and the bias logit.

Two phases: bias learning (BLP) fits the bias net alone to the rows of the lowest level; uplift learning (ULP)
freezes it and fits the uplift net to all rows, with α times the roughness of the weights added to the loss and
α falling from ``smooth_from`` to ``smooth_to`` over the first half of the steps.

Where this differs from the paper: e_0, a second bias, is left out; the weights are softplus, because a dead ReLU has no
gradient; the smoothness does not overflow; the bias logit is linear, which can express rare responses.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import softplus

from shadowprice.checks import require
from shadowprice.responses.tabular.isotonic import smoothness
from shadowprice.responses.tabular.minibatch import BEST, Objective, TabularRows, steps_per_epoch
from shadowprice.responses.tabular.network import (
    FeatureEmbedding,
    LevelNetwork,
    TabularNetwork,
    logloss,
    weighted_logloss,
)
from shadowprice.responses.tabular.rows import TabularInputs
from shadowprice.responses.training.config import FitResult
from shadowprice.responses.training.processes import weighted_mean

FLOOR = 1e-6
"""Least weight: keeps the logarithms of the smoothness finite."""


def hidden_layer(inputs: int, hidden: int) -> tuple[nn.Module, int]:
    """One ReLU layer and its width, or nothing at ``hidden`` 0."""
    return (nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU()), hidden) if hidden else (nn.Identity(), inputs)


class BiasNet(nn.Module):
    """Embeddings → one dense unit: the logit at the lowest level (n,)."""

    def __init__(self, inputs: TabularInputs, embedding: int, hidden: int) -> None:
        super().__init__()
        self.features = FeatureEmbedding(inputs, embedding)
        self.hidden, width = hidden_layer(self.features.width, hidden)
        self.out = nn.Linear(width, 1)
        nn.init.zeros_(self.out.weight)

    def forward(self, numeric: Tensor, category: Tensor) -> Tensor:
        """(n,)."""
        logit: Tensor = self.out(self.hidden(self.features(numeric, category))).squeeze(1)
        return logit


class UpliftNet(nn.Module):
    """Features and the bias logit → weights (n, K) ≥ 0, each fed by the one before."""

    def __init__(self, inputs: TabularInputs, weights: int, embedding: int, hidden: int) -> None:
        super().__init__()
        self.features = FeatureEmbedding(inputs, embedding)
        self.hidden, width = hidden_layer(self.features.width + 1, hidden)
        self.own = nn.Linear(width, weights)
        self.chain = nn.Parameter(torch.zeros(weights))
        nn.init.normal_(self.own.weight, std=0.05)

    def forward(self, numeric: Tensor, category: Tensor, bias: Tensor) -> Tensor:
        """(n, K)."""
        z = torch.cat([self.features(numeric, category), bias[:, None]], dim=1)
        own = self.own(self.hidden(z))
        weight = own.new_zeros(own.shape[0])
        weights = []
        for k in range(own.shape[1]):
            weight = softplus(own[:, k] + self.chain[k] * weight) + FLOOR
            weights.append(weight)
        return torch.stack(weights, dim=1) if weights else own


class DipnNetwork(LevelNetwork):
    """Bias net and uplift net; the curve never falls, whatever their parameters."""

    def __init__(self, inputs: TabularInputs, levels: int, *, embedding: int = 8, hidden: int = 0) -> None:
        super().__init__()
        self.bias = BiasNet(inputs, embedding, hidden)
        self.uplift = UpliftNet(inputs, levels - 1, embedding, hidden)

    def parts(self, numeric: Tensor, category: Tensor) -> tuple[Tensor, Tensor]:
        """Bias logit (n,), which ULP takes as given, and the weights (n, K)."""
        bias = self.bias(numeric, category)
        return bias, self.uplift(numeric, category, bias)

    def logits(self, bias: Tensor, weight: Tensor) -> Tensor:
        """(n, J)."""
        return bias[:, None] + nn.functional.pad(torch.cumsum(weight, dim=1), (1, 0))

    def forward(self, numeric: Tensor, category: Tensor) -> Tensor:
        """Logits (n, J)."""
        return self.logits(*self.parts(numeric, category))

    @torch.no_grad()
    def start(self, share: NDArray[np.float64]) -> None:
        """Bias at the lowest level's mean, weights equal and such that they end at the highest one's."""
        logit = np.log(share / (1 - share))
        self.bias.out.bias.fill_(float(logit[0]))
        rise = max(float(logit[-1] - logit[0]) / max(1, share.size - 1), 1e-2)
        self.uplift.own.bias.fill_(float(np.log(np.expm1(rise))))


class DipnModel(TabularNetwork[DipnNetwork]):
    """S1's model. Options beside those of :class:`TabularNetwork`:

    hidden       width of a ReLU layer in both nets; 0 leaves each a sum over the features, as the paper draws it
    smooth_from, smooth_to   α of the smoothness at the start and from half of the steps on (not printed in S1)
    bias_epochs  at most, in BLP
    freeze_bias  False lets ULP move the bias net too, from where BLP left it: rows of the lowest level alone may be
                 too few to tell accounts apart
    """

    monotone = True

    def __init__(
        self,
        levels: Sequence[int],
        seed: int = 0,
        *,
        hidden: int = 64,
        smooth_from: float = 0.1,
        smooth_to: float = 1e-3,
        bias_epochs: int = 300,
        freeze_bias: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(levels, seed, **options)
        below = "must not be below smooth_to, which must not be negative"
        require(smooth_from >= smooth_to >= 0, "smooth_from", below)
        self.hidden = hidden
        self.smooth_from, self.smooth_to = smooth_from, smooth_to
        self.bias_epochs = bias_epochs
        self.freeze_bias = freeze_bias

    def build(self, inputs: TabularInputs) -> DipnNetwork:
        """The untrained network."""
        return DipnNetwork(inputs, self.levels.size, embedding=self.embedding, hidden=self.hidden)

    def alpha(self, step: int, steps: int) -> float:
        """Weight of the smoothness at a step of ``steps``: linear to ``smooth_to`` at half of them, then constant."""
        fall = (self.smooth_from - self.smooth_to) / max(1.0, steps / 2)
        return max(self.smooth_to, self.smooth_from - fall * step)

    def train(self, network: DipnNetwork, train: TabularRows, validation: TabularRows) -> list[FitResult]:
        """BLP, then ULP."""
        return [self._learn_bias(network, train, validation), self._learn_uplift(network, train, validation)]

    def _learn_bias(self, network: DipnNetwork, train: TabularRows, validation: TabularRows) -> FitResult:
        lowest, held = (rows.take(rows.level == 0) for rows in (train, validation))
        require(
            bool(len(lowest) and len(held)),
            "level",
            "the bias is learned from rows of the lowest level, and there are none in the rows that train or in those "
            "held out; give more accounts the lowest level",
        )
        return self.descend(
            network,
            lowest,
            held,
            objective=Objective(judge=lambda rows: logloss(network.bias(rows.numeric, rows.category), rows)),
            parameters=list(network.bias.parameters()),
            config=replace(self.training, epochs=self.bias_epochs),
        )

    def _learn_uplift(self, network: DipnNetwork, train: TabularRows, validation: TabularRows) -> FitResult:
        network.bias.requires_grad_(not self.freeze_bias)
        alpha, steps = self.sent().alpha, self.training.epochs * steps_per_epoch(len(train), self.training)

        def loss(rows: TabularRows, step: int) -> Tensor:
            bias, weight = network.parts(rows.numeric, rows.category)
            logits = network.logits(bias, weight).gather(1, rows.level[:, None]).squeeze(1)
            # Roughness is a prior on curves, not a response: it is not weighted.
            return logloss(logits, rows) + alpha(step, steps) * weighted_mean(
                smoothness(weight), torch.ones_like(rows.weight)
            )

        losses = self.descend(
            network,
            train,
            validation,
            objective=Objective(judge=lambda rows: weighted_logloss(network, rows), loss=loss),
            parameters=[parameter for parameter in network.parameters() if parameter.requires_grad],
            best=replace(BEST, least_epochs=self.training.epochs // 2 if self.smooth_from > self.smooth_to else 0),
        )
        network.bias.requires_grad_(True)
        return losses
