"""Hazard regression of the redemption threshold with piecewise constant rates (S0 eq. 7–13).

    s_k = w_k·h + b_k,   η_k = exp(clip(s_k, −15, 8)),   Λ_j = Λ_0 + Σ_{k≤j} d_k η_k,   f_j = 1 − exp(−Λ_j)

The data are current-status: a redemption at level r says the threshold lies below r (left-censored),
none says it lies above (right-censored). The loss of a row is −log(1 − e^−Λ) or Λ.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shadowprice.responses.calibration import hazard_factor
from shadowprice.responses.heads import LOG_RATE_RANGE, RATE_SCALE, HazardHead
from shadowprice.responses.layer import ResponseLayer


def log1mexp(cumulative: Tensor) -> Tensor:
    """log(1 − exp(−Λ)) for Λ > 0, exact at both ends (spec 0.2)."""
    small = cumulative < float(np.log(2.0))
    # Each branch sees a harmless argument where the other is chosen, so that its gradient stays finite.
    low = torch.log(-torch.expm1(-torch.where(small, cumulative, torch.ones_like(cumulative))))
    high = torch.log1p(-torch.exp(-torch.where(small, torch.ones_like(cumulative), cumulative)))
    return torch.where(small, low, high)


class HazardLayer(ResponseLayer):
    """Embedding (n, D) → cumulative hazard (n, J).

    The weights of the segments are kept as the first one plus increments, so that soft-thresholding
    an increment (:meth:`shrink`) merges two neighbouring segments exactly: the proximal form of the
    fused lasso ζ·Σ|w_{k+1} − w_k|. Intercepts are free unless ``fuse_intercepts``.

    A base mass Λ_0 = exp(w_b·h + b_b) is added when 0 is a level: someone may respond unpaid.
    """

    def __init__(
        self, width: int, levels: NDArray[np.int64], *, fusion: float = 0.0, fuse_intercepts: bool = False
    ) -> None:
        super().__init__()
        self.levels = np.asarray(levels, dtype=np.int64)
        self.fusion = fusion
        self.fuse_intercepts = fuse_intercepts
        segments = self.levels.size
        self.first = nn.Parameter(torch.zeros(width))
        self.increments = nn.Parameter(torch.zeros(segments - 1, width))
        self.first_bias = nn.Parameter(torch.zeros(1))
        self.bias_increments = nn.Parameter(torch.zeros(segments - 1))
        self.base = nn.Linear(width, 1) if self.levels[0] == 0 else None
        self.widths: Tensor
        self.register_buffer(
            "widths", torch.tensor(np.diff(self.levels, prepend=0) / RATE_SCALE, dtype=torch.get_default_dtype())
        )
        nn.init.normal_(self.first, std=0.05)
        nn.init.normal_(self.increments, std=0.01)
        if self.base is not None:
            nn.init.zeros_(self.base.weight)

    @torch.no_grad()
    def start(self, level: NDArray[np.int64], response: NDArray[np.float64]) -> None:
        """Set the intercepts to the rates that explain the mean response of each level."""
        share = np.array([response[level == j].mean() if np.any(level == j) else 0.0 for j in range(self.levels.size)])
        cumulative = -np.log1p(-np.clip(np.maximum.accumulate(share), 1e-3, 0.995))
        steps = np.diff(cumulative, prepend=cumulative[0] if self.base is not None else 0.0)
        width = self.widths.numpy()
        floor = 0.05 * cumulative[-1] / max(float(width.sum()), 1e-9)
        rate = np.where(width > 0, np.maximum(steps / np.where(width > 0, width, 1.0), floor), floor)
        log_rate = torch.tensor(np.log(np.maximum(rate, 1e-4)), dtype=self.first_bias.dtype)
        self.first_bias.copy_(log_rate[:1])
        self.bias_increments.copy_(torch.diff(log_rate))
        if self.base is not None:
            self.base.bias.fill_(float(np.log(cumulative[0])))

    @property
    def weight(self) -> Tensor:
        """(J, D)."""
        return torch.cumsum(torch.cat([self.first[None], self.increments]), dim=0)

    @property
    def bias(self) -> Tensor:
        """(J,)."""
        return torch.cumsum(torch.cat([self.first_bias, self.bias_increments]), dim=0)

    def forward(self, embedding: Tensor) -> Tensor:
        """Cumulative hazard Λ (n, J), non-decreasing in j for any weights."""
        rate = torch.exp(torch.clamp(embedding @ self.weight.T + self.bias, *LOG_RATE_RANGE))
        cumulative = torch.cumsum(rate * self.widths, dim=1)
        if self.base is not None:
            cumulative = cumulative + torch.exp(torch.clamp(self.base(embedding), *LOG_RATE_RANGE))
        return cumulative

    def loss(self, embedding: Tensor, level: Tensor, response: Tensor) -> Tensor:
        """(n,) negative log-likelihood of the rows: y at the assigned level."""
        cumulative = self.forward(embedding).gather(1, level[:, None]).squeeze(1)
        return -response * log1mexp(cumulative) + (1.0 - response) * cumulative

    @torch.no_grad()
    def shrink(self, step: Callable[[nn.Parameter], Tensor]) -> None:
        """Proximal step of the fused lasso after a gradient step; ``step`` gives its length per coordinate."""
        if not self.fusion:
            return
        targets = [self.increments, self.bias_increments] if self.fuse_intercepts else [self.increments]
        for parameter in targets:
            threshold = step(parameter) * self.fusion
            parameter.copy_(torch.sign(parameter) * torch.clamp(parameter.abs() - threshold, min=0.0))

    @torch.no_grad()
    def calibrate(self, embedding: Tensor, level: Tensor, response: Tensor, account: Tensor) -> float:
        """Scale all hazards by the factor c that fits held-out rows best, and return log c."""
        cumulative = self(embedding).gather(1, level[:, None]).squeeze(1)
        correction = hazard_factor(cumulative.numpy(), response.numpy(), account.numpy())
        self.correct(correction)
        return correction

    @torch.no_grad()
    def correct(self, correction: float) -> None:
        """Add ``correction`` to every log hazard."""
        self.first_bias.add_(correction)
        if self.base is not None:
            self.base.bias.add_(correction)

    def to_head(self, default_embedding: NDArray[np.float32]) -> HazardHead:
        """The same curve without torch."""

        def array(tensor: Tensor) -> NDArray[np.float32]:
            return tensor.detach().numpy().astype(np.float32)

        return HazardHead(
            levels=self.levels,
            weight=array(self.weight),
            bias=array(self.bias),
            base_weight=None if self.base is None else array(self.base.weight[0]),
            base_bias=None if self.base is None else float(self.base.bias.detach()[0]),
            default_embedding=default_embedding,
        )
