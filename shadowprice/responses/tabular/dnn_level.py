"""S1's plain DNN: the level is one more number among the features. Nothing makes its curves rise."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shadowprice.responses.tabular.network import FeatureEmbedding, LevelNetwork, TabularNetwork
from shadowprice.responses.tabular.rows import TabularInputs


class LevelMlp(LevelNetwork):
    """MLP over embeddings, numbers and the standardised level."""

    def __init__(self, inputs: TabularInputs, levels: NDArray[np.int64], embedding: int, hidden: Sequence[int]) -> None:
        super().__init__()
        self.features = FeatureEmbedding(inputs, embedding)
        sizes = [self.features.width + 1, *hidden]
        layers: list[nn.Module] = []
        for before, after in pairwise(sizes):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.net = nn.Sequential(*layers, nn.Linear(sizes[-1], 1))
        amount = levels.astype(np.float64)
        scale = amount.std() if amount.size > 1 else 1.0
        self.amount: Tensor
        self.register_buffer("amount", torch.tensor((amount - amount.mean()) / scale, dtype=torch.float32))

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

    @torch.no_grad()
    def start(self, share: NDArray[np.float64]) -> None:
        """Start at the overall mean."""
        mean = float(share.mean())
        last = self.net[-1]
        assert isinstance(last, nn.Linear)
        last.bias.fill_(float(np.log(mean / (1 - mean))))


class DnnLevelModel(TabularNetwork):
    """Same features as DIPN, the level as a scalar, an MLP (S1, section 5, baseline DNN).

    Options beside those of :class:`TabularNetwork`: ``hidden``, widths of the MLP.
    """

    monotone = False

    def __init__(
        self, levels: Sequence[int], seed: int = 0, *, hidden: Sequence[int] = (64, 32), **options: Any
    ) -> None:
        super().__init__(levels, seed, **options)
        self.hidden = tuple(hidden)

    def build(self, inputs: TabularInputs) -> LevelNetwork:
        """The untrained MLP."""
        return LevelMlp(inputs, self.levels, self.embedding, self.hidden)
