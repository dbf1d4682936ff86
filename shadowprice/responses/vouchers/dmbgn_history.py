"""What rows read of the sessions in their past, by DMBGN: attention, scores, and the auxiliary loss (S3).

    read = Σ_r w_r·e_r ‖ e_T ‖ scores of the past, raw and their max, mean, min        aux = mean_r −log s_r

One pass in C where :mod:`shadowprice.encoders.kernel` was built, :func:`read_plain` otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding, softplus

from shadowprice.encoders.kernel.compiled import IS_COMPILED
from shadowprice.encoders.kernel.histories import HALF, UNITS, Given, HistoryPass
from shadowprice.encoders.voucher_nodes import gather
from shadowprice.responses.vouchers.sessions import Index, Past, TargetAttention


@dataclass(frozen=True, eq=False)
class Encoded:
    """Embeddings of n sessions: e_b (n, D), and e_o as rows ``code`` (n,) of ``offers`` (T, D)."""

    behaviour: Tensor
    offers: Tensor
    code: Index

    @property
    def voucher(self) -> Tensor:
        """e_o (n, D)."""
        return embedding(torch.from_numpy(self.code), self.offers)

    @property
    def both(self) -> Tensor:
        """(n, 2 · D)."""
        return torch.cat([self.behaviour, self.voucher], dim=1)

    @property
    def score(self) -> Tensor:
        """(n,): logits of the scores, e_b·e_o."""
        return (self.behaviour * self.voucher).sum(dim=1)

    def beside(self, other: Encoded) -> Encoded:
        """These and then others, of the same offers."""
        assert other.offers is self.offers
        return Encoded(
            torch.cat([self.behaviour, other.behaviour]), self.offers, np.concatenate([self.code, other.code])
        )


@dataclass(frozen=True, eq=False)
class Histories:
    """n rows and the S sessions of their past.

    past     which session stands where in which row's history
    session  (P,): which of the S each of them is
    encoded  of the S sessions, then of the n rows
    """

    past: Past
    session: Index
    encoded: Encoded

    @property
    def sessions(self) -> int:
        """S."""
        return self.encoded.code.size - self.past.rows


class _Recall(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, given: Given, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        ctx.computed = HistoryPass(given, [each.detach().contiguous() for each in tensors])
        read, auxiliary = ctx.computed.forth()
        return read, auxiliary

    @staticmethod
    def backward(ctx: Any, *gradient: Tensor) -> tuple[Tensor | None, ...]:
        return None, *ctx.computed.back(*gradient)


def read_histories(histories: Histories, attention: TargetAttention) -> tuple[Tensor, Tensor]:
    """What each row reads (n, 4 · D + R + 3), and its auxiliary loss (n,), 0 without a past."""
    first, bend, last = attention.unit
    encoded, past = histories.encoded, histories.past
    if not IS_COMPILED or encoded.behaviour.shape[1] != HALF or first.weight.shape != (UNITS, 8 * HALF):
        return read_plain(histories, attention)
    given = Given(
        past.rows,
        histories.sessions,
        past.most,
        attention.average,
        past.row,
        past.slot,
        histories.session,
        encoded.code,
    )
    tensors = (first.weight, first.bias, bend.weight, last.weight, last.bias)
    found: tuple[Tensor, Tensor] = _Recall.apply(given, encoded.behaviour, encoded.offers, *tensors)  # type: ignore[no-untyped-call]
    return found


def read_plain(histories: Histories, attention: TargetAttention) -> tuple[Tensor, Tensor]:
    """The same in torch."""
    past, of = histories.past, histories.session
    both, score = histories.encoded.both, gather(histories.encoded.score[:, None], of).squeeze(1)
    target = both[histories.sessions :]
    concerned = attention(gather(both, of), target, past)
    read = torch.cat([concerned, target, score_features(torch.sigmoid(score), past)], dim=1)
    count = torch.from_numpy(np.maximum(past.count, 1)).to(score.dtype)
    return read, past.sum(softplus(-score)[:, None]).squeeze(1) / count


def score_features(score: Tensor, past: Past) -> Tensor:
    """(n, R + 3): scores (P,) of each history, latest first, zeros where it is shorter; then their max, mean, min."""
    raw = past.spread(score)
    there = past.spread(torch.ones_like(score))
    count = there.sum(dim=1)
    most = raw.max(dim=1).values
    mean = raw.sum(dim=1) / count.clamp(min=1)
    least = torch.where(count > 0, (raw + (1 - there)).min(dim=1).values, torch.zeros_like(most))
    return torch.cat([raw, torch.stack([most, mean, least], dim=1)], dim=1)
