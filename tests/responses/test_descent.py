"""The loop of gradient steps: what weight decay does to what the loss does not hear."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from shadowprice.responses.descent import descend
from shadowprice.responses.training import TrainingConfig


class Pair(nn.Module):
    """Two numbers, of which a loss may hear one and not the other."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = nn.Parameter(torch.tensor(2.0))
        self.unheard = nn.Parameter(torch.tensor(2.0))


def test_decay_shrinks_what_is_not_heard_by_the_rate_and_no_faster() -> None:
    config = TrainingConfig(learning_rate=0.01, decay=0.9, epochs=30, patience=30, weight_decay=0.02)
    pair, left = Pair(), [1.0]

    def loss(index: Tensor, epoch: int) -> Tensor:
        left.append(left[-1] * (1 - 0.01 * 0.9**epoch * 0.02))
        return (pair.heard - 5.0).square() + 0.0 * pair.unheard

    descend(pair, 1, loss, lambda: -float(len(left)), config)
    assert len(left) == 31
    # A decay that is part of the gradient would have moved it by the learning rate in every step, 0.095 in all.
    assert pair.unheard.item() == pytest.approx(2.0 * left[-1], abs=1e-5)
    assert pair.heard.item() > 2.05


def test_groups_have_decays_of_their_own() -> None:
    config = TrainingConfig(learning_rate=0.01, decay=1.0, epochs=20, patience=20, weight_decay=0.5)
    pair = Pair()
    groups = [{"params": [pair.heard]}, {"params": [pair.unheard], "weight_decay": 0.0}]
    epochs: list[int] = []

    def loss(index: Tensor, epoch: int) -> Tensor:
        epochs.append(epoch)
        return 0.0 * (pair.heard + pair.unheard)

    descend(pair, 1, loss, lambda: -float(len(epochs)), config, parameters=groups)
    assert pair.unheard.item() == 2.0
    assert pair.heard.item() == pytest.approx(2.0 * (1 - 0.01 * 0.5) ** 20, rel=1e-5)
