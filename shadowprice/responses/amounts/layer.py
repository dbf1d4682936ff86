"""Head of the amount of a response, trained jointly with a response layer on any encoder."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shadowprice.checks import require, require_one_of
from shadowprice.responses.amounts.losses import LEAST, LOSSES
from shadowprice.responses.arrays import inverse_softplus
from shadowprice.responses.layers.base import array
from shadowprice.responses.layers.hazard import log1mexp
from shadowprice.responses.layers.heads import LARGEST_SPREAD, LEAST_SPREAD, spread

NAMES = ("ziln", "esj", "esj_mass")
"""Losses that a layer can learn by; the first is the default."""
FARTHEST = 3.0
"""Deviations that the mean log amount must lie above one minor unit, at which ESJ ends."""


class AmountLayer(nn.Module):
    """log amount ~ N(w_j·h + b_j, spread(u·h + c)), w_j = w + Σ_k B_jk·v_k, from the embedding h (n, D).

    B (J, 1) is the standardized level: the effect of the incentive on the amount differs by account and has either
    sign. Where levels have no order, B is the identity. The loss of a row is that of S2's ``loss`` with the response
    layer's probability, in minor units. It adds the negative log-likelihood of the amount to the loss of the response.

    ESJ reads an amount below one minor unit as no response. Amounts are far above it, or :meth:`start` refuses them, so
    the response layer's curve stays the probability of a response, and P + 1 counts as P.
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

    def loss(self, embedding: Tensor, level: Tensor, response: Tensor, amount: Tensor, own: Tensor) -> Tensor:
        """(n,) joint loss of response and amount.

        Args:
            embedding: (n, D).
            level: (n,).
            response: (n,), 0 or 1.
            amount: (n,), minor units, 0 where there is none.
            own: (n,), negative log-likelihood of the response by the response layer.
        """
        hit = response > 0
        # −log p of a response and −log(1 − p) of none determine each other.
        other = log1mexp(own.clamp(min=1e-7))
        log_p, log_q = torch.where(hit, -own, other), torch.where(hit, other, -own)
        by_level: Tensor = (self.basis[level] * (embedding @ self.by_level.T)).sum(dim=1)  # type: ignore[index]
        mu = embedding @ self.weight + by_level + self.bias[level]
        sigma = spread(embedding @ self.spread_weight + self.spread_bias, self.law.floor)
        return self.law.rows(log_p, log_q, mu, sigma, torch.log1p(torch.where(hit, amount, torch.zeros_like(amount))))

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
