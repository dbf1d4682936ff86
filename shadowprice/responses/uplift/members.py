"""Mean of networks that start from different weights: the expected curves under a posterior, in place of one draw.

Few rows leave many networks that fit them alike and decide differently. The mean over some of them is the expected
outcome over what the rows leave open, and a price solved on it bets on none of them.
"""

from collections.abc import Sequence
from copy import copy
from typing import Any, cast

import torch
from torch import Tensor, nn

from shadowprice.checks import require
from shadowprice.responses.tabular.rows import TabularInputs
from shadowprice.responses.uplift.networks import OutcomeNetwork
from shadowprice.responses.uplift.two_outcome import LabeledRows, SLearnerModel

MEMBERS = 5


class MeanNetwork(OutcomeNetwork):
    """Mean raw output of several networks: log odds of outcomes that are 0 or 1, amounts of the others."""

    def __init__(self, members: Sequence[OutcomeNetwork]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, x: Tensor) -> Tensor:
        """(n, K, J)."""
        return torch.stack([member(x) for member in self.members]).mean(dim=0)

    def start(self, raw: Tensor) -> None:
        """Set the intercepts of each member."""
        for member in self.members:
            cast(OutcomeNetwork, member).start(raw)

    def shift(self, raw: Tensor) -> None:
        """Add ``raw`` (K,) to every output."""
        for member in self.members:
            cast(OutcomeNetwork, member).shift(raw)


class SLearnerMeanModel(SLearnerModel):
    """Mean of S-learners that differ in their initial weights and batches, for trials of few rows.

    Training takes ``members`` times as long as one. Source: Lakshminarayanan et al. (2017), deep ensembles.

    Options beside those of :class:`~shadowprice.responses.uplift.two_outcome.TwoOutcomeModel`:
        members: number of networks.
    """

    def __init__(self, levels: Sequence[int], seed: int = 0, *, members: int = MEMBERS, **options: Any) -> None:
        super().__init__(levels, seed, **options)
        require(members > 0, "members", "must be at least 1")
        self.members = members

    def build(self, inputs: TabularInputs) -> OutcomeNetwork:
        """The networks, before training."""
        one = super().build
        return MeanNetwork([one(inputs) for _ in range(self.members)])

    def learn(self, network: OutcomeNetwork, train: LabeledRows, held_out: LabeledRows) -> None:
        """Train each network by itself."""
        for number, member in enumerate(cast(MeanNetwork, network).members):
            own = copy(self)
            own.seed = self.seed * self.members + number
            own.learn_predictions(cast(OutcomeNetwork, member), train, held_out)
