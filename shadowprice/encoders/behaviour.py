"""Encoder of an account's own actions on offers, in order of time, as one vector: self-attention (S2)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shadowprice.encoders.short_softmax import short_softmax

BEHAVIOUR_WIDTH = 128
"""Width of the vector (S2)."""
HEADS = 2


@dataclass(frozen=True, eq=False)
class Behaviours:
    """The last T events of n accounts, padded.

    offer   int64 (n, T), number of the offer; an encoder reads 0 as an unknown one
    action  int64 (n, T), number of the action
    ago     float32 (n, T), log(1 + days) since the event
    there   bool (n, T), False where there is no event
    """

    offer: Tensor
    action: Tensor
    ago: Tensor
    there: Tensor

    def take(self, index: Tensor | slice) -> Behaviours:
        """The accounts at ``index``."""
        return Behaviours(self.offer[index], self.action[index], self.ago[index], self.there[index])


class BehaviourEncoder(nn.Module):
    """Events attend to each other (one layer, two heads), then their mean is projected to 128 numbers.

    An event is the sum of embeddings of its offer, its action and its age; offer 0 is an unknown one and adds nothing.
    A token that is always there stands for the account itself, so that an account without events has a vector too.
    Padding takes no part.
    O(n·T²·hidden + n·T·hidden²).
    """

    def __init__(self, offers: int, actions: int, hidden: int = 32) -> None:
        super().__init__()
        self.offer = nn.Embedding(offers, hidden, padding_idx=0)
        self.action = nn.Embedding(actions, hidden)
        self.ago = nn.Linear(1, hidden)
        self.account = nn.Parameter(0.1 * torch.randn(hidden))
        self.attend = nn.Linear(hidden, 3 * hidden)
        self.mix = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, BEHAVIOUR_WIDTH)

    def forward(self, events: Behaviours) -> Tensor:
        """(n, 128)."""
        token = self.offer(events.offer).add_(self.action(events.action)).add_(self.ago(events.ago[:, :, None]))
        n, hidden = token.shape[0], token.shape[2]
        token = torch.cat([self.account.expand(n, 1, hidden), token], dim=1)
        there = torch.cat([events.there.new_ones(n, 1), events.there], dim=1)
        query, key, value = (
            part.view(n, -1, HEADS, hidden // HEADS).transpose(1, 2) for part in self.attend(token).chunk(3, dim=2)
        )
        score = (query * (hidden // HEADS) ** -0.5) @ key.transpose(2, 3)
        seen = short_softmax(score.masked_fill_(~there[:, None, None, :], -torch.inf)) @ value
        token = self.mix(seen.transpose(1, 2).reshape(n, -1, hidden)).add_(token).relu_()
        weight = there.to(token.dtype)[:, None]
        # The sum beside a mean would tell how much an account did; its logarithm is enough.
        pooled = (weight @ token).squeeze(1) / weight.sum(dim=2).sqrt()
        vector: Tensor = self.out(pooled).relu_()
        return vector
