"""Meaning of the raw outputs of a fund network: the chain of steps to a conversion, then mu, then sigma."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from shadowprice.documents import Plain
from shadowprice.responses.amounts.losses import LOSSES, AmountLoss, log_product
from shadowprice.responses.funds.rows import FundRows


@dataclass(frozen=True, eq=False)
class Delivery:
    """Predictions for each of J offers delivered to N accounts; float64 (J, N) each.

    probability  of a conversion; mu, sigma of log(1 + amount) given one, 0 where the model has none
    amount       expected units of a conversion, before it is clipped
    log_amount   expected log(1 + units) of a conversion
    """

    probability: NDArray[np.float64]
    mu: NDArray[np.float64]
    sigma: NDArray[np.float64]
    amount: NDArray[np.float64]
    log_amount: NDArray[np.float64]


@dataclass(frozen=True)
class Outputs(Plain):
    """Reader of the outputs (n, T) of the towers, with the moments of the amounts seen in training.

    loss      name in ``LOSSES``
    steps     towers of the chain: 2 with clicks, 1 without, 0 where there is no conversion
    given_click  whether the last step and the amount are learned from clicked deliveries alone
    cap       largest expected amount of a conversion, units
    mean      mean units of a conversion, and log_mean the mean of log(1 + units), NaN where never seen
    """

    loss: str
    steps: int
    cap: float = math.inf
    mean: float = math.nan
    log_mean: float = math.nan
    given_click: bool = False

    @classmethod
    def of(
        cls, loss: str, steps: int, frame: pd.DataFrame, unit: int, clip: float, *, given_click: bool = False
    ) -> Outputs:
        """Build from the amounts of a training frame: the cap is their quantile ``clip``."""
        bought = frame["amount"].to_numpy(dtype=np.float64) / unit if "amount" in frame else np.zeros(0)
        bought = bought[bought > 0]
        if not bought.size:
            return cls(loss, steps, given_click=given_click)
        means = float(bought.mean()), float(np.log1p(bought).mean())
        return cls(loss, steps, float(np.quantile(bought, clip)), *means, given_click)

    @property
    def kind(self) -> AmountLoss:
        """Law of the amounts."""
        return LOSSES[self.loss]

    @property
    def converts(self) -> bool:
        """True where there is a probability of conversion."""
        return self.loss != "value"

    @property
    def width(self) -> int:
        """T."""
        return self.steps + self.kind.outputs

    def rows(self, raw: Tensor, rows: FundRows) -> Tensor:
        """Training loss (n,): that of the amounts, and cross-entropy of the click where the chain has one.

        Over all deliveries p = pCTR·pCVR (Ma et al. 2018), and a click without a purchase counts like any delivery
        without a purchase. With ``given_click`` it is the likelihood of the pair (click, v), −log P(click) −
        log P(v | click): a delivery without a click adds nothing about v, a click without a purchase counts in full.
        """
        zero = torch.zeros_like(raw[:, 0])
        counted = raw[:, int(self.given_click) : self.steps]
        log_p, log_q = log_product(*counted.unbind(1)) if self.steps else (zero, zero)
        mu, sigma = self._spread(raw)
        total = self.kind.rows(log_p, log_q, mu, sigma, rows.v)
        if self.given_click:
            total = torch.where(rows.clicked > 0, total, zero)
        if self.steps == 2:
            total = total + binary_cross_entropy_with_logits(raw[:, 0], rows.clicked, reduction="none")
        return total

    def delivery(self, raw: Tensor) -> Tensor:
        """(5, n): the fields of :class:`Delivery`, in order."""
        mu, sigma = self._spread(raw)
        log_amount = self.kind.log_amount(mu, sigma)
        if self._same_for_all:
            log_amount = torch.full_like(log_amount, self.log_mean)
        probability, amount = self._probability(raw, mu, sigma), self._amount(mu, sigma)
        return torch.stack([probability, mu, sigma, amount, log_amount])

    def value(self, raw: Tensor) -> Tensor:
        """Expected units of a delivery (n,), the amount of a conversion cut at the cap (S2, ETV)."""
        mu, sigma = self._spread(raw)
        amount = self._amount(mu, sigma).clamp(max=self.cap)
        return self._probability(raw, mu, sigma) * amount if self.converts else amount

    def start(self, rows: FundRows) -> Tensor:
        """(T,): raw outputs at which every row is expected to do what the mean row did."""
        weight = rows.weight / rows.weight.sum()
        bought = (rows.v > 0).float()
        convert, click = float((weight * bought).sum()), float((weight * rows.clicked).sum())
        share = convert / max(click, 1e-4) if self.steps == 2 else convert
        counted = weight if not self.converts else weight * bought / max(convert, 1e-9)
        last, mu, sigma = self.kind.start(share, rows.v, counted)
        steps = [click, last][2 - self.steps :]
        raw = [math.log(share / (1 - share)) for share in (min(max(step, 1e-4), 1 - 1e-4) for step in steps)]
        raw += self.kind.raw(mu, sigma)
        return torch.tensor(raw[: self.width])

    @property
    def _same_for_all(self) -> bool:
        """True where every conversion has the mean amount of training."""
        return self.converts and not self.kind.outputs and math.isfinite(self.mean)

    def _spread(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        """mu and sigma, each (n,); zeros where the model has none."""
        zero = torch.zeros_like(raw[:, 0])
        mu = self.kind.mu(raw[:, self.steps]) if self.kind.outputs > 0 else zero
        sigma = self.kind.sigma(raw[:, self.steps + 1]) if self.kind.outputs > 1 else zero
        return mu, sigma

    def _probability(self, raw: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
        """(n,), of a conversion."""
        if not self.converts:
            # A score in [0, 1]: the expected log-amount as a share of the largest.
            return (mu / math.log1p(self.cap) if math.isfinite(self.cap) else torch.zeros_like(mu)).clamp(max=1.0)
        return self.kind.conversion(raw[:, : self.steps].sigmoid().prod(dim=1), mu, sigma)

    def _amount(self, mu: Tensor, sigma: Tensor) -> Tensor:
        """(n,), expected units of a conversion."""
        amount = self.kind.amount(mu, sigma)
        return torch.full_like(amount, self.mean) if self._same_for_all else amount
