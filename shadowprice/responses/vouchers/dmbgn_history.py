"""Histories of DMBGN (S3): attention over past sessions, their scores, and the auxiliary loss.

read = Σ_r w_r·e_r ‖ e_T ‖ scores of the past, raw and their max, mean, min        aux = mean_r −log s_r
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from shadowprice.responses.vouchers.sessions import Index, Past, TargetAttention


class Encoded(NamedTuple):
    """Embeddings of n sessions: e_b and e_o, (n, D) each."""

    behaviour: Tensor
    voucher: Tensor

    @property
    def both(self) -> Tensor:
        """(n, 2 · D)."""
        return torch.cat([self.behaviour, self.voucher], dim=1)

    @property
    def score(self) -> Tensor:
        """(n,): logits of the scores, e_b·e_o."""
        return (self.behaviour * self.voucher).sum(dim=1)


class Memory(NamedTuple):
    """The past of n rows, whose sessions are embedded once for all rows that share them.

    past     which session stands where in which row's history
    session  (S,): the distinct sessions, as positions in the log
    of       (P,): which of the S each past session is
    encoded  of the S sessions
    """

    past: Past
    session: Index
    of: Index
    encoded: Encoded


def read_histories(memory: Memory, target: Encoded, attention: TargetAttention) -> tuple[Tensor, Tensor]:
    """Return what each row reads (n, 4 · D + R + 3), and its auxiliary loss (n,), 0 without a past."""
    past, of = memory.past, torch.from_numpy(memory.of)
    score = memory.encoded.score.index_select(0, of)
    concerned = attention(memory.encoded.both.index_select(0, of), target.both, past)
    read = torch.cat([concerned, target.both, score_features(torch.sigmoid(score), past)], dim=1)
    count = torch.from_numpy(np.maximum(past.count, 1)).to(score.dtype)
    return read, past.sum(softplus(-score)[:, None]).squeeze(1) / count


def score_features(score: Tensor, past: Past) -> Tensor:
    """Return the scores of each history, latest first and padded with zeros, then their max, mean, min: (n, R + 3)."""
    raw = past.spread(score)
    there = past.spread(torch.ones_like(score))
    count = there.sum(dim=1)
    most = raw.max(dim=1).values
    mean = raw.sum(dim=1) / count.clamp(min=1)
    least = torch.where(count > 0, (raw + (1 - there)).min(dim=1).values, torch.zeros_like(most))
    return torch.cat([raw, torch.stack([most, mean, least], dim=1)], dim=1)
