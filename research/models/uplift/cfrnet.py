"""CFRNet: a shared representation in which the arms look alike (Shalit, Johansson and Sontag, ICML 2017)."""

from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from shadowprice.checks import require, require_one_of
from shadowprice.responses.uplift.networks import OutcomeNetwork, SharedTrunk
from shadowprice.responses.uplift.two_outcome import LabeledRows, TwoOutcomeModel

Distance = Literal["mmd", "wasserstein"]

SAMPLE = 128
"""Rows of each group whose distance is taken in a step: distances are quadratic in them."""


class CfrNetModel(TwoOutcomeModel):
    """Prediction loss + α·mean over levels of the distance between the level's representations and all others'.

    With two levels this is the paper's; with more, every level is compared with the rest.

    Options:
        alpha: weight of the distance.
        distance: ``mmd`` (squared, Gaussian kernel at the median distance) or ``wasserstein`` (entropic).
        others: see :class:`~shadowprice.responses.uplift.two_outcome.TwoOutcomeModel`.
    """

    network_name = "shared"
    by_row = False

    def __init__(
        self, levels: Sequence[int], seed: int = 0, *, alpha: float = 0.1, distance: Distance = "mmd", **options: Any
    ) -> None:
        super().__init__(levels, seed, **options)
        require_one_of(distance, get_args(Distance), "distance")
        require(alpha >= 0, "alpha", "must not be negative")
        self.alpha = alpha
        self.distance = squared_mmd if distance == "mmd" else wasserstein

    def loss(self, network: OutcomeNetwork, rows: LabeledRows, epoch: int) -> Tensor:
        """Prediction loss and imbalance of the representation."""
        assert isinstance(network, SharedTrunk)
        representation = network.representation(rows.x)
        predicted = self.prediction_loss(network.outcomes(representation), rows)
        return predicted + self.alpha * self.imbalance(representation, rows.level, epoch)

    def imbalance(self, representation: Tensor, level: Tensor, epoch: int) -> Tensor:
        """Mean over levels of the distance (n, H) of its rows to the other rows, on a sample that changes by epoch."""
        random = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
        total = representation.new_zeros(())
        for j in range(self.levels.size):
            own, rest = ((level == j).nonzero().squeeze(1), (level != j).nonzero().squeeze(1))
            if len(own) < 2 or len(rest) < 2:
                continue
            first, second = (
                representation[group[torch.randperm(len(group), generator=random)[:SAMPLE]]] for group in (own, rest)
            )
            total = total + self.distance(first, second)
        return total / self.levels.size


def squared_mmd(a: Tensor, b: Tensor) -> Tensor:
    """Squared maximum mean discrepancy of samples (n, H), (m, H), both at least 2; unbiased, so it may be below 0.

    Gaussian kernel whose width is the median squared distance of the pooled sample (Gretton et al. 2012).
    """
    pooled = torch.cat([a, b])
    squares = squared_distances(pooled, pooled)
    width = squares.detach().median().clamp(min=1e-6)
    kernel = torch.exp(-squares / width)
    n, m = len(a), len(b)
    within_a, within_b, across = kernel[:n, :n], kernel[n:, n:], kernel[:n, n:]
    first = (within_a.sum() - within_a.diagonal().sum()) / (n * (n - 1))
    second = (within_b.sum() - within_b.diagonal().sum()) / (m * (m - 1))
    return first + second - 2 * across.mean()


def wasserstein(a: Tensor, b: Tensor, *, rounds: int = 20, smoothing: float = 0.05) -> Tensor:
    """Entropic Wasserstein-2 cost of samples (n, H), (m, H) by Sinkhorn's iteration in logarithms (Cuturi 2013)."""
    cost = squared_distances(a, b)
    width = smoothing * cost.detach().mean().clamp(min=1e-6)
    scores = -cost / width
    u, v = cost.new_zeros(len(a)), cost.new_zeros(len(b))
    log_a, log_b = -torch.log(torch.tensor(float(len(a)))), -torch.log(torch.tensor(float(len(b))))
    with torch.no_grad():
        for _ in range(rounds):
            u = log_a - torch.logsumexp(scores + v, dim=1)
            v = log_b - torch.logsumexp(scores + u[:, None], dim=0)
        plan = torch.exp(scores + u[:, None] + v)
    return (plan * cost).sum()


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """(n, m) squared distances."""
    return (a[:, None, :] - b[None, :, :]).square().sum(dim=2)
