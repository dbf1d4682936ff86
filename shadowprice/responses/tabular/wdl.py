"""MLPs over features and the level as a number, or an offer's identity: Wide & Deep (Cheng et al., DLRS 2016).

    logit = MLP(features ‖ embedding of the offer ‖ its amount)  [+ b_j + β·numbers + Σ_columns w_j[value]]

The wide part crosses every category with the offer. Offers have no order: vouchers for different goods.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shadowprice.checks import require
from shadowprice.responses.tabular.network import (
    FeatureEmbedding,
    LevelNetwork,
    Module,
    TabularNetwork,
    mlp,
    standard_amounts,
    start_intercept,
)
from shadowprice.responses.tabular.rows import TabularInputs
from shadowprice.responses.training.config import TrainingConfig


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
        self.amount: Tensor
        self.register_buffer("amount", standard_amounts(levels))

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


class MlpModel(TabularNetwork[Module]):
    """Base of the models of offers without an order that end in an MLP.

    Options beside those of :class:`TabularNetwork`:
        hidden: widths of the MLP (S3's by default).
        dropout: share of its hidden units that a training step leaves out, as in the code of S3's authors.
    """

    ordered: ClassVar[bool] = False
    TRAINING = TrainingConfig(learning_rate=5e-3, decay=0.93, epochs=30, patience=4, weight_decay=0.1, batch_rows=256)
    EMBEDDING = 16

    def __init__(
        self,
        levels: Sequence[int],
        seed: int = 0,
        *,
        hidden: Sequence[int] = (128, 64),
        dropout: float = 0.5,
        **options: Any,
    ) -> None:
        super().__init__(levels, seed, **options)
        require(0 <= dropout < 1, "dropout", "must be at least 0 and below 1")
        self.hidden = tuple(hidden)
        self.dropout = dropout


class OfferModel(MlpModel[OfferNetwork]):
    """Base of ``wdl`` and ``dnn_offer``."""

    wide: ClassVar[bool]

    def build(self, inputs: TabularInputs) -> OfferNetwork:
        """The untrained network."""
        return OfferNetwork(inputs, self.levels, self.embedding, self.hidden, wide=self.wide, dropout=self.dropout)


class WideAndDeepModel(OfferModel):
    """S3's baseline WDL."""

    wide = True


class OfferDnnModel(OfferModel):
    """S3's baseline DNN."""

    wide = False


class LevelMlp(LevelNetwork):
    """MLP over embeddings, numbers and the standardized level."""

    def __init__(self, inputs: TabularInputs, levels: NDArray[np.int64], embedding: int, hidden: Sequence[int]) -> None:
        super().__init__()
        self.features = FeatureEmbedding(inputs, embedding)
        self.net = mlp(self.features.width + 1, hidden)
        self.amount: Tensor
        self.register_buffer("amount", standard_amounts(levels))

    def forward(self, numeric: Tensor, category: Tensor) -> Tensor:
        """Logits (n, J)."""
        features = self.features(numeric, category)
        n, levels = features.shape[0], self.amount.shape[0]
        amount = self.amount[None, :, None].expand(n, levels, 1)
        logits: Tensor = self.net(torch.cat([features[:, None].expand(n, levels, -1), amount], dim=2)).squeeze(2)
        return logits

    def at(self, numeric: Tensor, category: Tensor, level: Tensor) -> Tensor:
        """Logits (n,) at one level of each row."""
        features = self.features(numeric, category)
        logits: Tensor = self.net(torch.cat([features, self.amount[level][:, None]], dim=1)).squeeze(1)
        return logits

    def start(self, share: NDArray[np.float64]) -> None:
        """Start at the overall mean."""
        start_intercept(self.net[-1], share)


class DnnLevelModel(TabularNetwork[LevelMlp]):
    """Same features as DIPN, the level as a scalar, an MLP (S1, section 5, baseline DNN). Its curves may fall.

    Options beside those of :class:`TabularNetwork`: ``hidden``, widths of the MLP.
    """

    def __init__(
        self, levels: Sequence[int], seed: int = 0, *, hidden: Sequence[int] = (64, 32), **options: Any
    ) -> None:
        super().__init__(levels, seed, **options)
        self.hidden = tuple(hidden)

    def build(self, inputs: TabularInputs) -> LevelMlp:
        """The untrained MLP."""
        return LevelMlp(inputs, self.levels, self.embedding, self.hidden)
