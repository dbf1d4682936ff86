"""Head of the amount of a response, trained jointly with a response layer on any encoder."""

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shadowprice.checks import require, require_one_of
from shadowprice.responses.amounts.losses import LEAST, LOSSES
from shadowprice.responses.amounts.shrinkage import shrunk
from shadowprice.responses.arrays import inverse_softplus
from shadowprice.responses.layers.base import array
from shadowprice.responses.layers.hazard import log1mexp
from shadowprice.responses.layers.heads import LARGEST_SPREAD, LEAST_SPREAD, spread

NAMES = ("ziln", "esj", "esj_mass")
"""Losses that a layer can learn by; the first is the default."""
FARTHEST = 3.0
"""Deviations that the mean log amount must lie above one minor unit, at which ESJ ends."""

REFIT_ROWS = 1 << 13
"""Rows of :meth:`AmountLayer.refit` in memory at a time."""


class AmountLayer(nn.Module):
    """log amount ~ N(w_j·h + b_j, spread(u·h + c)), w_j = w + Σ_k B_jk·v_k, from the embedding h (n, D).

    B (J, 1) is the standardized level: the effect of the incentive on the amount differs by account and has either
    sign. Where levels have no order, B is the identity. The loss of a row is that of S2's ``loss`` with the response
    layer's probability, in minor units. It adds the negative log-likelihood of the amount to the loss of the response.

    ESJ reads an amount below one minor unit as no response. Amounts are far above it, or :meth:`start` refuses them, so
    the response layer's curve stays the probability of a response, and P + 1 counts as P.

    Of a response that is a ratio the amount is that of one unit, A/y, and a row counts y times: the mean of A/y so
    weighted is E[A]/E[y], which times the expected response is the expected amount. Only ZILN learns it.
    """

    def __init__(self, width: int, levels: NDArray[np.int64], loss: str = NAMES[0], *, ordered: bool = True) -> None:
        super().__init__()
        require_one_of(loss, NAMES, "amounts")
        self.name, self.law = loss, LOSSES[loss]
        count = len(levels)
        # Centered, so that gradient steps find the effect of an account apart from that of its level.
        basis = ((levels - levels.mean()) / max(float(levels.std()), 1.0))[:, None] if ordered else np.eye(count)
        self.register_buffer("basis", torch.tensor(basis, dtype=torch.get_default_dtype()), persistent=False)
        self.weight = nn.Parameter(torch.zeros(width))
        self.by_level = nn.Parameter(torch.zeros(basis.shape[1], width))
        self.bias = nn.Parameter(torch.zeros(count))
        self.spread_weight = nn.Parameter(torch.zeros(width))
        self.spread_bias = nn.Parameter(torch.zeros(1))

    @torch.no_grad()
    def start(self, amount: NDArray[np.float64], weight: NDArray[np.float64]) -> None:
        """Set the intercepts to the mean and the deviation of the log amounts (n,) of the training rows that have one.

        The weights (n,) of ratios are multiplied by them.

        Raises:
            InvalidInput: no row has an amount, or ESJ is to learn amounts near one minor unit.
        """
        known = amount > 0
        require(known.any(), "amount", "no training row has one")
        v, share = np.log(amount[known]), weight[known] / weight[known].sum()
        mean = float(share @ v)
        deviation = float(np.sqrt(share @ (v - mean) ** 2))
        near = f"of a few minor units are not told from no response by {self.name!r}; use {NAMES[0]!r}"
        require(self.name == NAMES[0] or mean - LEAST > FARTHEST * deviation, "amount", near)
        self.bias.fill_(mean)
        within = min(max(deviation, 2 * LEAST_SPREAD + self.law.floor), LARGEST_SPREAD)
        self.spread_bias.fill_(inverse_softplus(within - self.law.floor))

    def loss(
        self,
        embedding: Tensor,
        level: Tensor,
        response: Tensor,
        amount: Tensor,
        own: Tensor,
        units: Tensor | None = None,
    ) -> Tensor:
        """(n,) joint loss of response and amount.

        Args:
            embedding: (n, D).
            level: (n,).
            response: (n,), 0 or 1, or a ratio.
            amount: (n,), minor units of a unit of response, 0 where there is none.
            own: (n,), loss of the response by the response layer: of 0 or 1 its negative log-likelihood.
            units: (n,), units of response that each amount counts for, where it is a ratio.
        """
        hit = response > 0
        by_level: Tensor = (self.basis[level] * (embedding @ self.by_level.T)).sum(dim=1)  # type: ignore[index]
        mu = embedding @ self.weight + by_level + self.bias[level]
        sigma = spread(embedding @ self.spread_weight + self.spread_bias, self.law.floor)
        v = torch.log1p(torch.where(hit, amount, torch.zeros_like(amount)))
        if units is not None:
            none = torch.zeros_like(own)
            joint: Tensor = own + units * self.law.rows(none, none, mu, sigma, v)
            return joint
        # −log p of a response and −log(1 − p) of none determine each other.
        other = log1mexp(own.clamp(min=1e-7))
        log_p, log_q = torch.where(hit, -own, other), torch.where(hit, other, -own)
        return self.law.rows(log_p, log_q, mu, sigma, v)

    @torch.no_grad()
    def refit(self, embedding: Tensor, level: Tensor, amount: Tensor, weight: Tensor) -> None:
        """Fit the means anew on rows (n, D) that have an amount, by least squares with the penalties of most evidence.

        Gradient steps stop where the responses are learned best, with effects of the level on the amount that are still
        small or noise. Three groups are shrunk apart: effects of accounts, their changes over the levels, and how far
        levels lie from a line, or without an order from one mean. The deviation stays. Weights as in :meth:`start`.
        O(n·P² + P³), P = (1 + K)·D + J for a basis (J, K).
        """
        count, width = self.bias.numel(), self.weight.numel()
        basis = self.basis.numpy().astype(np.float64)  # type: ignore[operator]
        line = np.column_stack([np.ones(count), *([basis] if basis.shape[1] == 1 else [])])
        bent = np.linalg.qr(line, mode="complete")[0][:, line.shape[1] :]
        by_level = np.column_stack([line, bent])
        center = embedding.mean(dim=0)
        share = weight / spread(embedding @ self.spread_weight + self.spread_bias, self.law.floor).square()
        share = share / share.mean()
        columns = count + (1 + basis.shape[1]) * width
        gram, moment, square = np.zeros((columns, columns)), np.zeros(columns), 0.0
        for start in range(0, len(level), REFIT_ROWS):
            rows = slice(start, start + REFIT_ROWS)
            at, h = level[rows].numpy(), (embedding[rows] - center).numpy().astype(np.float64)
            x = np.column_stack([by_level[at], h, *(basis[at, k, None] * h for k in range(basis.shape[1]))])
            y, own = amount[rows].log().numpy().astype(np.float64), share[rows].numpy().astype(np.float64)
            gram, moment = gram + x.T @ (x * own[:, None]), moment + x.T @ (y * own)
            square += float(own @ y**2)
        ends = np.cumsum([line.shape[1], bent.shape[1], width, basis.shape[1] * width])
        groups = [np.arange(first, end) for first, end in pairwise(ends.tolist()) if end > first]
        found = shrunk(gram, moment, square, float(len(level)), groups)[0]
        mean, change = found[count : count + width], found[count + width :].reshape(-1, width)
        own_mean = (mean + basis @ change) @ center.numpy().astype(np.float64)
        for values, fitted in (
            (self.weight, mean),
            (self.by_level, change),
            (self.bias, by_level @ found[:count] - own_mean),
        ):
            values.copy_(torch.from_numpy(fitted))

    @torch.no_grad()
    def head_weights(self) -> dict[str, Any]:
        """Fields of :class:`~shadowprice.responses.layers.heads.AmountHead`."""
        return {
            "amount_weight": array(self.weight + self.basis @ self.by_level),  # type: ignore[operator]
            "amount_bias": array(self.bias),
            "spread_weight": array(self.spread_weight),
            "spread_bias": float(self.spread_bias),
            "spread_floor": self.law.floor,
        }
