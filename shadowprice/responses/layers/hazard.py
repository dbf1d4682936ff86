"""Hazard regression of the redemption threshold with piecewise constant rates (S0 eq. 8–10).

    s_k = w_k·h + b_k,   η_k = exp(clip(s_k, −15, 8)),   Λ_j = Λ_0 + Σ_{k≤j} d_k η_k,   f_j = 1 − exp(−Λ_j)

The data are current-status: after a redemption at level r the threshold lies below r (left-censored), otherwise above
(right-censored). The loss of a row is −log(1 − e^−Λ) or Λ.
"""

from abc import abstractmethod
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shadowprice.checks import require, require_one_of
from shadowprice.responses.arrays import RATE_SCALE, cumulative_hazard
from shadowprice.responses.calibration import hazard_factor
from shadowprice.responses.layers.base import ResponseLayer
from shadowprice.responses.layers.heads import HazardHead
from shadowprice.responses.weights import means_by_level

PENALTIES = ("lasso", "group")


def log1mexp(cumulative: Tensor) -> Tensor:
    """log(1 − exp(−Λ)) for Λ > 0, exact at both ends."""
    small = cumulative < float(np.log(2.0))
    # Each branch sees a harmless argument where the other is chosen, so that its gradient stays finite.
    low = torch.log(-torch.expm1(-torch.where(small, cumulative, torch.ones_like(cumulative))))
    high = torch.log1p(-torch.exp(-torch.where(small, torch.ones_like(cumulative), cumulative)))
    return torch.where(small, low, high)


class PiecewiseHazardLayer(ResponseLayer):
    """Embedding (n, D) → cumulative hazard (n, J), for any way of giving the segments their weights.

    A base mass Λ_0 = exp(w_b·h + b_b) is added when 0 is a level: someone may respond unpaid.
    """

    estimator = staticmethod(hazard_factor)
    head = HazardHead

    def __init__(self, levels: NDArray[np.int64]) -> None:
        super().__init__(levels)
        self.first_bias = nn.Parameter(torch.zeros(1))
        self.bias_increments = nn.Parameter(torch.zeros(self.levels.size - 1))
        self.base_bias = nn.Parameter(torch.zeros(1)) if self.levels[0] == 0 else None
        self.widths = self.constant("widths", np.diff(self.levels, prepend=0) / RATE_SCALE)

    @property
    @abstractmethod
    def weight(self) -> Tensor:
        """(J, D)."""

    @property
    @abstractmethod
    def base_weight(self) -> Tensor:
        """(D,), of the base mass."""

    @torch.no_grad()
    def start(
        self, level: NDArray[np.int64], response: NDArray[np.float64], weight: NDArray[np.float64] | None = None
    ) -> None:
        """Set the intercepts to the rates that explain the mean response of each level."""
        share = np.nan_to_num(means_by_level(level, response, weight, self.levels.size)[0])
        cumulative = -np.log1p(-np.clip(np.maximum.accumulate(share), 1e-3, 0.995))
        steps = np.diff(cumulative, prepend=cumulative[0] if self.base_bias is not None else 0.0)
        width = self.widths.numpy()
        floor = 0.05 * cumulative[-1] / max(float(width.sum()), 1e-9)
        rate = np.where(width > 0, np.maximum(steps / np.where(width > 0, width, 1.0), floor), floor)
        log_rate = torch.tensor(np.log(rate), dtype=self.first_bias.dtype)
        self.first_bias.copy_(log_rate[:1])
        self.bias_increments.copy_(torch.diff(log_rate))
        if self.base_bias is not None:
            self.base_bias.fill_(float(np.log(cumulative[0])))

    @property
    def bias(self) -> Tensor:
        """(J,)."""
        return torch.cumsum(torch.cat([self.first_bias, self.bias_increments]), dim=0)

    def forward(self, embedding: Tensor) -> Tensor:
        """Cumulative hazard Λ (n, J), non-decreasing in j for any weights."""
        base = None if self.base_bias is None else (embedding @ self.base_weight + self.base_bias)[:, None]
        return cumulative_hazard(embedding @ self.weight.T + self.bias, self.widths, base, axis=1)

    def loss(self, embedding: Tensor, level: Tensor, response: Tensor) -> Tensor:
        """(n,) negative log-likelihood of the rows: y at the assigned level."""
        cumulative = self.at(embedding, level)
        return -response * log1mexp(cumulative) + (1.0 - response) * cumulative

    @torch.no_grad()
    def correct(self, correction: float) -> None:
        """Add ``correction`` to every log hazard."""
        self.first_bias.add_(correction)
        if self.base_bias is not None:
            self.base_bias.add_(correction)

    def head_weights(self) -> dict[str, Tensor | None]:
        """Weights and intercepts of the segments and, where 0 is a level, of the base mass."""
        base = {} if self.base_bias is None else {"base_weight": self.base_weight, "base_bias": self.base_bias[0]}
        return {"weight": self.weight, "bias": self.bias, **base}


class CoxLayer(PiecewiseHazardLayer):
    """Proportional hazards (S0's baseline Cox), η_k = exp(b_k)·exp(w·h): Λ_j = Λ⁰_j·exp(w·h), base mass included."""

    def __init__(self, width: int, levels: NDArray[np.int64]) -> None:
        super().__init__(levels)
        self.shared = nn.Parameter(torch.zeros(width))
        nn.init.normal_(self.shared, std=0.05)

    @property
    def weight(self) -> Tensor:
        """(J, D), the same in every row."""
        return self.shared.expand(self.levels.size, -1)

    @property
    def base_weight(self) -> Tensor:
        """(D,)."""
        return self.shared


class HazardLayer(PiecewiseHazardLayer):
    """Free weights in every segment, held together by a fused penalty ζ·Σ_k |w_{k+1} − w_k| (S0 eq. 8–10).

    The weights of the segments are kept as the first one plus increments, so that the proximal step of the penalty
    (:meth:`shrink`) merges two neighboring segments exactly, and change points can be read off.

    Options:
        fusion: ζ; 0 leaves the segments free, and for ζ → ∞ all weights are equal, as in the Cox layer.
        penalty: ``lasso`` takes |·| over coordinates, ``group`` the Euclidean length, which merges all
            coordinates of a segment at once.
    """

    def __init__(
        self,
        width: int,
        levels: NDArray[np.int64],
        *,
        fusion: float = 0.0,
        penalty: str = "lasso",
    ) -> None:
        super().__init__(levels)
        require_one_of(penalty, PENALTIES, "penalty")
        require(0.0 <= fusion < float("inf"), "fusion", f"must be finite and not negative, got {fusion}")
        self.fusion, self.penalty = fusion, penalty
        self.first = nn.Parameter(torch.zeros(width))
        self.increments = nn.Parameter(torch.zeros(self.levels.size - 1, width))
        self.free_base = nn.Parameter(torch.zeros(width)) if self.base_bias is not None else None
        nn.init.normal_(self.first, std=0.05)
        nn.init.normal_(self.increments, std=0.01)

    @property
    def weight(self) -> Tensor:
        """(J, D)."""
        return torch.cumsum(torch.cat([self.first[None], self.increments]), dim=0)

    @property
    def base_weight(self) -> Tensor:
        """(D,), of the base mass."""
        return torch.zeros_like(self.first) if self.free_base is None else self.free_base

    @torch.no_grad()
    def shrink(self, step: Callable[[nn.Parameter], Tensor]) -> None:
        """Proximal step of the fused penalty after a gradient step; ``step`` gives its length per coordinate."""
        if not self.fusion:
            return
        threshold = step(self.increments) * self.fusion
        shorten = shrink_groups if self.penalty == "group" else soft_threshold
        self.increments.copy_(shorten(self.increments, threshold))

    def change_points(self) -> NDArray[np.int64]:
        """Levels, minor units, behind which the weights change."""
        changes = self.increments.detach().abs().amax(dim=1) > 0
        return np.asarray(self.levels[:-1][changes.numpy()])


def soft_threshold(values: Tensor, threshold: Tensor) -> Tensor:
    """argmin_x ½·Σ (x − v)²/t + Σ |x|: the proximal step of the lasso with step lengths t."""
    return torch.sign(values) * torch.clamp(values.abs() - threshold, min=0.0)


def shrink_groups(values: Tensor, threshold: Tensor) -> Tensor:
    """argmin_x ½·Σ (x − v)²/t + Σ_k ‖x_k‖ over rows k (J, D): the proximal step of the group lasso.

    With unequal step lengths x = v·n/(n + t), n = ‖x_k‖ the root of Σ v²/(n + t)² = 1, found by bisection; a row
    with ‖v/t‖ ≤ 1 becomes exactly zero.
    """
    threshold = threshold.clamp(min=1e-30)
    low, high = values.new_zeros(values.shape[0], 1), values.norm(dim=1, keepdim=True)
    for _ in range(60):
        middle = 0.5 * (low + high)
        above = (values / (middle + threshold)).square().sum(dim=1, keepdim=True) > 1.0
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    stays = (values / threshold).norm(dim=1, keepdim=True) > 1.0
    return torch.where(stays, values * high / (high + threshold), torch.zeros_like(values))
