"""Direct ranking: scores of return on spend, learned from the ratio itself (DRM; Du, Lee and Ghaffarizadeh 2019)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from shadowprice.checks import require
from shadowprice.responses.tabular.rows import TabularInputs
from shadowprice.responses.training.batches import shuffled
from shadowprice.responses.training.loop import GradientDescent
from shadowprice.responses.uplift.networks import OutcomeNetwork
from shadowprice.responses.uplift.two_outcome import LabeledRows, TwoOutcomeModel, columns_of


class RankingNetwork(OutcomeNetwork):
    """Scores s_j(x) in (−1, 1) of the levels above the lowest, and the scale that makes curves of them.

    The curves share one cost per level, c_0 + Δc_j, and the value v_0 + Δv_j·exp(s_j) / mean exp(s_j): the
    arms' mean increments, handed out by score. The buffers hold c_0, Δc, v_0, Δv and mean exp(s).
    """

    def __init__(self, inputs: int, levels: int, hidden: int) -> None:
        super().__init__()
        self.score = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, levels - 1), nn.Tanh())
        self.base: Tensor
        self.step: Tensor
        self.normalizer: Tensor
        self.register_buffer("base", torch.zeros(2))
        self.register_buffer("step", torch.zeros(2, levels - 1))
        self.register_buffer("normalizer", torch.ones(levels - 1))

    def scores(self, x: Tensor) -> Tensor:
        """(n, J − 1)."""
        out: Tensor = self.score(x)
        return out

    def forward(self, x: Tensor) -> Tensor:
        """(n, 2, J): value and cost in their own units."""
        share = torch.exp(self.scores(x)) / self.normalizer
        steps = torch.stack([self.step[0] * share, self.step[1].expand_as(share)], dim=1)
        return self.base[:, None] + torch.cat([torch.zeros_like(steps[:, :, :1]), steps], dim=2)

    def start(self, raw: Tensor) -> None:
        """Scores start at chance."""

    @torch.no_grad()
    def shift(self, raw: Tensor) -> None:
        """Shift the mean of the lowest level, on which the others stand."""
        self.base.add_(raw)


class DirectRankingModel(TwoOutcomeModel):
    """For every level j above the lowest, rows of the two levels: minimize Δc̄ / Δv̄ with

        Δv̄ = Σ_{t=j} p_i·y_i − Σ_{t=0} p_i·y_i,  p = softmax of the scores s_j within the arm

    (and Δc̄ likewise): the spend per unit of value when money goes where the score is high. The paper has
    one treated arm; with more, the ratios are averaged. As a ratio can change its sign, what is minimized is
    −log Δv̄ + log Δc̄, each kept above a thousandth of its value at equal scores. Without a column ``cost`` the
    increments of cost are those of the levels.

    The score ranks; only the means of its curves are calibrated.
    """

    calibrated = False

    def __init__(self, levels: Sequence[int], seed: int = 0, **options: Any) -> None:
        super().__init__(levels, seed, **options)
        require(self.levels.size > 1, "levels", "a ranking needs at least two levels")

    def build(self, inputs: TabularInputs) -> OutcomeNetwork:
        """One score per level above the lowest."""
        return RankingNetwork(columns_of(inputs), self.levels.size, self.hidden)

    def learn(self, network: OutcomeNetwork, train: LabeledRows, held_out: LabeledRows) -> None:
        """Fit the scores, then hand the arms' mean increments out by them."""
        assert isinstance(network, RankingNetwork)
        config = replace(self.training, seed=self.seed)
        GradientDescent(
            network,
            shuffled(len(train), config),
            lambda index, _: self.ranking_loss(network.scores(train.x[index]), train.take(index)),
            lambda: float(self.ranking_loss(network.scores(held_out.x), held_out)),
        ).run(config, progress=self.progress)
        with torch.no_grad():
            means = torch.stack([self._mean(train, j) for j in range(self.levels.size)], dim=1)
            network.base.copy_(means[:, 0])
            network.step.copy_(means[:, 1:] - means[:, :1])
            network.normalizer.copy_(torch.exp(network.scores(train.x)).mean(dim=0))

    def ranking_loss(self, scores: Tensor, rows: LabeledRows) -> Tensor:
        """Mean over the levels of log Δc̄ − log Δv̄."""
        total, terms = scores.new_zeros(()), 0
        for j in range(1, self.levels.size):
            arms = [(rows.level == level).nonzero().squeeze(1) for level in (j, 0)]
            if min(map(len, arms)) == 0:
                continue
            by_score, equal = (
                [self._weighted(s, rows, arm) for arm in arms] for s in (scores[:, j - 1], torch.zeros(len(scores)))
            )
            for sign, k in ((-1.0, 0), (1.0, 1)):
                floor = 1e-3 * (equal[0][k] - equal[1][k]).abs().clamp(min=1e-6)
                total = total + sign * torch.log((by_score[0][k] - by_score[1][k]).clamp(min=floor))
            terms += 1
        # Without two arms there is nothing to rank; the zero still has a gradient.
        return total / max(terms, 1) + 0.0 * scores.sum()

    def expected(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        """The network's outputs are in the outcomes' own units."""
        return raw[:, 0], raw[:, 1]

    def _weighted(self, score: Tensor, rows: LabeledRows, arm: Tensor) -> Tensor:
        weight = (score[arm] + torch.log(rows.importance[arm].clamp(min=1e-12))).softmax(dim=0)
        return weight @ self._both(rows)[arm]

    def _mean(self, rows: LabeledRows, level: int) -> Tensor:
        """(2,): mean value and cost of the rows given a level; those of all rows where none was."""
        here = rows.level == level
        weight = rows.importance * here if bool(here.any()) else rows.importance
        return (weight / weight.sum()) @ self._both(rows)

    def _both(self, rows: LabeledRows) -> Tensor:
        if len(self.kinds) == 2:
            return rows.outcomes
        paid = torch.from_numpy(self.levels).to(rows.outcomes)[rows.level]
        return torch.stack([rows.outcomes[:, 0], paid], dim=1)
