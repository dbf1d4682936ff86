"""Networks over features and an offer's identity: Wide & Deep (Cheng et al., DLRS 2016) and its deep part alone.

    logit = MLP(features ‖ embedding of the offer ‖ its amount)  [+ b_j + β·numbers + Σ_columns w_j[value]]

The wide part crosses every category with the offer. Offers have no order: vouchers for different goods.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shadowprice.errors import InvalidInput
from shadowprice.responses.tabular.network import FeatureEmbedding, LevelNetwork, TabularNetwork
from shadowprice.responses.tabular.rows import TabularInputs
from shadowprice.responses.training.config import TrainingConfig

HIDDEN = (128, 64)
"""S3's MLP."""
EMBEDDING = 16
DROPOUT = 0.5
"""Share of the MLP's units that are dropped, as in the code of S3's authors."""
DEFAULT = TrainingConfig(learning_rate=5e-3, decay=0.93, epochs=30, patience=4, weight_decay=0.1, batch_rows=256)


def checked_dropout(share: float) -> float:
    """``share``, or :class:`InvalidInput` where it is none of [0, 1)."""
    if not 0 <= share < 1:
        raise InvalidInput("must be at least 0 and below 1", field="dropout")
    return share


def mlp(inputs: int, hidden: Sequence[int], dropout: float = 0.0) -> nn.Sequential:
    """(n, inputs) → (n, 1) through ReLU layers; in training a unit of them is 0 with probability ``dropout``."""
    layers: list[nn.Module] = []
    for before, after in pairwise([inputs, *hidden]):
        layers += [nn.Linear(before, after), nn.Sequential(nn.ReLU(), nn.Dropout(dropout))]
    return nn.Sequential(*layers, nn.Linear(hidden[-1] if hidden else inputs, 1))


class OfferNetwork(LevelNetwork):
    """Deep, or wide and deep."""

    def __init__(
        self,
        inputs: TabularInputs,
        levels: NDArray[np.int64],
        embedding: int,
        hidden: Sequence[int],
        *,
        wide: bool,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.features = FeatureEmbedding(inputs, embedding)
        self.offer = nn.Embedding(levels.size, embedding)
        nn.init.normal_(self.offer.weight, std=0.3)
        self.deep = mlp(self.features.width + embedding + 1, hidden, dropout)
        self.intercept = nn.Parameter(torch.zeros(levels.size))
        self.numbers = nn.Linear(inputs.numbers.width, 1, bias=False) if wide and inputs.numbers.width else None
        self.crosses = nn.Embedding(levels.size * sum(inputs.sizes), 1) if wide and inputs.sizes else None
        if self.crosses is not None:
            nn.init.zeros_(self.crosses.weight)
        self.values = sum(inputs.sizes)
        amount = levels.astype(np.float64)
        self.amount: Tensor
        scale = max(float(amount.std()), 1e-9)
        self.register_buffer("amount", torch.tensor((amount - amount.mean()) / scale, dtype=torch.float32))

    def forward(self, numeric: Tensor, category: Tensor) -> Tensor:
        """Logits (n, J)."""
        levels = torch.arange(self.intercept.shape[0])
        return torch.stack([self.at(numeric, category, level.expand(numeric.shape[0])) for level in levels], dim=1)

    def at(self, numeric: Tensor, category: Tensor, level: Tensor) -> Tensor:
        """Logits (n,) at one offer of each row."""
        read = [self.features(numeric, category), self.offer(level), self.amount[level][:, None]]
        logits: Tensor = self.deep(torch.cat(read, dim=1)).squeeze(1) + self.intercept[level]
        if self.numbers is not None:
            logits = logits + self.numbers(numeric).squeeze(1)
        if self.crosses is not None:
            place = level[:, None] * self.values + category + self.features.offset
            logits = logits + self.crosses(place).sum(dim=(1, 2))
        return logits

    @torch.no_grad()
    def start(self, share: NDArray[np.float64]) -> None:
        """Start every offer at its mean."""
        self.intercept.copy_(torch.from_numpy(np.log(share / (1 - share))))


class OfferModel(TabularNetwork):
    """Base of ``wdl`` and ``dnn_offer``.

    Options beside those of :class:`TabularNetwork`:
        hidden: widths of the MLP.
        dropout: share of its hidden units that a training step leaves out.
    """

    ordered: ClassVar[bool] = False
    wide: ClassVar[bool]

    def __init__(
        self,
        levels: Sequence[int],
        seed: int = 0,
        *,
        hidden: Sequence[int] = HIDDEN,
        dropout: float = DROPOUT,
        training: TrainingConfig | None = None,
        embedding: int = EMBEDDING,
        **options: Any,
    ) -> None:
        super().__init__(levels, seed, training=training or DEFAULT, embedding=embedding, **options)
        self.hidden = tuple(hidden)
        self.dropout = checked_dropout(dropout)

    def build(self, inputs: TabularInputs) -> LevelNetwork:
        """The untrained network."""
        return OfferNetwork(inputs, self.levels, self.embedding, self.hidden, wide=self.wide, dropout=self.dropout)


class WideAndDeepModel(OfferModel):
    """S3's baseline WDL."""

    wide = True


class OfferDnnModel(OfferModel):
    """S3's baseline DNN."""

    wide = False
