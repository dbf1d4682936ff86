"""DIN on vouchers (Zhou et al., KDD 2018; S3's strongest baseline): attention over the vouchers redeemed before.

It reads the vouchers that a person redeemed, and not the carts around them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shadowprice.responses.tabular.network import FeatureEmbedding, mlp, start_intercept
from shadowprice.responses.tabular.rows import TabularInputs
from shadowprice.responses.vouchers.sessions import (
    Past,
    SessionModel,
    SessionNetwork,
    SessionRows,
    TargetAttention,
    Vouchers,
)


class _Memory(NamedTuple):
    past: Past
    keys: Tensor


class DinNetwork(SessionNetwork):
    """logit = MLP(profile ‖ target voucher ‖ attention over redeemed vouchers); a voucher is its id and its terms."""

    def __init__(
        self,
        inputs: TabularInputs,
        vouchers: Vouchers,
        known: int,
        embedding: int,
        hidden: Sequence[int],
        dropout: float,
    ) -> None:
        super().__init__()
        self.vouchers = vouchers
        self.features = FeatureEmbedding(inputs, embedding)
        self.voucher = nn.Embedding(known + 1, embedding)
        nn.init.normal_(self.voucher.weight, std=0.3)
        with torch.no_grad():
            self.voucher.weight[0] = 0.0
        width = embedding + 2
        self.attention = TargetAttention(width)
        self.head = mlp(self.features.width + 2 * width, hidden, dropout)

    def remember(self, rows: SessionRows) -> _Memory:
        """The vouchers redeemed before."""
        past = Past.of(rows.past)
        own = self.vouchers
        return _Memory(past, self._voucher(own.of_session[past.session], own.session_terms[past.session]))

    def logits(self, rows: SessionRows, level: Tensor, memory: _Memory) -> Tensor:
        """(n,)."""
        at = level.numpy()
        target = self._voucher(self.vouchers.of_level[at], self.vouchers.level_terms[at])
        concerned = self.attention(memory.keys, target, memory.past)
        read = torch.cat([self.features(rows.numeric, rows.category), target, concerned], dim=1)
        logit: Tensor = self.head(read).squeeze(1)
        return logit

    def start(self, share: NDArray[np.float64]) -> None:
        """Start at the overall mean."""
        start_intercept(self.head[-1], share)

    def _voucher(self, code: NDArray[np.int64], terms: NDArray[np.float32]) -> Tensor:
        table = self.voucher.weight
        return torch.cat(
            [table.index_select(0, torch.from_numpy(code)), torch.from_numpy(terms).to(table.dtype)], dim=1
        )


class DinModel(SessionModel[DinNetwork]):
    """Options are those of :class:`SessionModel`."""

    def build(self, inputs: TabularInputs) -> DinNetwork:
        """The untrained network."""
        return DinNetwork(inputs, self.vouchers(), len(self.known), self.embedding, self.hidden, self.dropout)
