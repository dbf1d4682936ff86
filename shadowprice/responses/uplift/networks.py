"""Networks that give every outcome at every level, and what binds the levels together in each."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn


class OutcomeNetwork(nn.Module, ABC):
    """Features (n, D) → raw outputs (n, K, J) of K outcomes at J levels; see :class:`~.outcomes.Outcome`."""

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """(n, K, J)."""

    out: nn.Linear | ArmLinear
    """Last layer, with one intercept per outcome or one per level and outcome."""

    @torch.no_grad()
    def start(self, raw: Tensor) -> None:
        """Set the intercepts so that the mean output is about ``raw`` (K, J)."""
        self.out.bias.copy_(raw.T if self.out.bias.ndim == 2 else raw.mean(dim=1))

    @torch.no_grad()
    def shift(self, raw: Tensor) -> None:
        """Add ``raw`` (K,) to every output."""
        self.out.bias.add_(raw)


class SLearner(OutcomeNetwork):
    """One network with the level among its inputs (Künzel et al. 2019): x ‖ e_j → H → H → K."""

    def __init__(self, inputs: int, levels: int, outcomes: int, hidden: int) -> None:
        super().__init__()
        self.features = nn.Linear(inputs, hidden)
        self.level = nn.Parameter(torch.zeros(levels, hidden))
        self.hidden = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, outcomes)
        nn.init.normal_(self.level, std=0.1)

    def forward(self, x: Tensor) -> Tensor:
        """(n, K, J)."""
        first = torch.relu(self.features(x)[:, None, :] + self.level)
        out: Tensor = self.out(torch.relu(self.hidden(first))).transpose(1, 2)
        return out


class TLearner(OutcomeNetwork):
    """One network per level, sharing nothing (Künzel et al. 2019)."""

    def __init__(self, inputs: int, levels: int, outcomes: int, hidden: int) -> None:
        super().__init__()
        self.first = ArmLinear(levels, inputs, hidden)
        self.second = ArmLinear(levels, hidden, hidden)
        self.out = ArmLinear(levels, hidden, outcomes)

    def forward(self, x: Tensor) -> Tensor:
        """(n, K, J)."""
        h = torch.relu(self.first(x[:, None, :].expand(-1, self.first.levels, -1)))
        out: Tensor = self.out(torch.relu(self.second(h))).transpose(1, 2)
        return out


class ArmLinear(nn.Module):
    """A linear layer per level: (n, J, I) → (n, J, O)."""

    def __init__(self, levels: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.levels = levels
        bound = max(inputs, 1) ** -0.5
        self.weight = nn.Parameter(torch.empty(levels, inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(levels, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """(n, J, O)."""
        return torch.einsum("nji,jio->njo", x, self.weight) + self.bias


NETWORKS: dict[str, type[SLearner] | type[TLearner]] = {
    "s_learner": SLearner,
    "t_learner": TLearner,
}
"""Networks that a goal can be trained through, by name."""
