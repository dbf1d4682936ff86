"""Laws of the amount of a conversion: the losses of S2, and the mean amount under each.

An amount PA is counted in units of the least purchase, v = log(PA + 1). A row has log p and log(1 − p) of the chain
of its towers; of a positive row the log-amount is v, of a negative one 0. Losses are per row and so stable that logits
of hundreds do no harm. A new loss is a class here and an entry in ``LOSSES``.

A fitted loss gives the mean of PA, for money and choices, and the mean of log(PA + 1), for errors on the log scale: by
Jensen's inequality the log of the first is larger.
"""

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import torch
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import log_ndtr, ndtri
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from shadowprice.responses.arrays import inverse_softplus

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
FLOOR = 1 / math.sqrt(2 * math.pi)
"""At a smaller sigma the density at 0 exceeds 1, and ESJ has no lower bound."""
LARGEST_SIGMA = 5.0
LARGEST_MU = 25.0
LEAST = math.log(2)
"""v of the least purchase, one unit."""
MOST_SURE = 0.98
FARTHEST = 6.0
"""Bounds of a start: p of a mass of 1, and spreads between mu and the least purchase."""
NODES, WEIGHTS = hermegauss(24)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def log_product(*logits: Tensor) -> tuple[Tensor, Tensor]:
    """log p and log(1 − p) of p = Π sigmoid(logit), each (n,): exact where p is all but 0 or 1.

    1 − p is summed over where the chain ends first, so nothing is subtracted.
    """
    log_p = torch.zeros_like(logits[0])
    log_q = torch.full_like(logits[0], -math.inf)
    for logit in logits:
        log_q = torch.logaddexp(log_q, log_p + logsigmoid(-logit))
        log_p = log_p + logsigmoid(logit)
    return log_p, log_q


def _raw(value: float) -> float:
    """Output from which softplus makes ``value``, or 0.01 where that is more."""
    return inverse_softplus(max(value, 1e-2))


def log_normal(v: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
    """log N(v; mu, sigma)."""
    return -0.5 * ((v - mu) / sigma).square() - sigma.log() - LOG_SQRT_2PI


class AmountLoss(ABC):
    """Base of the losses.

    outputs  raw outputs of the network beside the probability: 0, 1 (mu) or 2 (mu, sigma)
    floor    least sigma
    signed   whether mu may lie below 0
    """

    outputs: ClassVar[int] = 2
    floor: ClassVar[float] = FLOOR
    signed: ClassVar[bool] = False

    def mu(self, raw: Tensor) -> Tensor:
        """Location in [0, 25]: the log-amount of a purchase is not negative."""
        return softplus(raw).clamp(max=LARGEST_MU)

    def sigma(self, raw: Tensor) -> Tensor:
        """Scale in [floor, 5]."""
        return (self.floor + softplus(raw)).clamp(max=LARGEST_SIGMA)

    def raw(self, mu: float, sigma: float) -> tuple[float, float]:
        """Raw outputs that are read as mu and sigma, as near as they can be."""
        return mu if self.signed else _raw(mu), _raw(sigma - self.floor)

    def start(self, share: float, v: Tensor, weight: Tensor) -> tuple[float, float, float]:
        """p, mu and sigma at which training starts: share of rows that convert, mean and spread of their v.

        Args:
            share: of rows that convert, of those that the last step of the chain is of.
            v: (n,).
            weight: (n,), of sum 1 over the rows that mu is of and 0 elsewhere.
        """
        mu = float((weight * v).sum())
        return share, mu, float((weight * (v - mu).square()).sum()) ** 0.5

    @abstractmethod
    def rows(self, log_p: Tensor, log_q: Tensor, mu: Tensor, sigma: Tensor, v: Tensor) -> Tensor:
        """Loss (n,) of each row; v is 0 exactly where the row did not convert."""

    def conversion(self, p: Tensor, _mu: Tensor, _sigma: Tensor) -> Tensor:
        """Probability that a delivery converts: the complement of the loss's probability of no purchase."""
        return p

    @abstractmethod
    def amount(self, mu: Tensor, sigma: Tensor) -> Tensor:
        """E[PA] of a conversion, in units."""

    def log_amount(self, mu: Tensor, _sigma: Tensor) -> Tensor:
        """E[log(1 + PA)] of a conversion."""
        return mu


class Esj(AmountLoss):
    """S2's entire-space joint loss (eq. 12), as printed, with a floor under sigma.

        positive  −[log p + log N(v; mu, sigma) − v]        lognormal density of PA + 1; v is constant in the parameters
        negative  −log[(1 − p) + p·N(0; mu, sigma)]

    The negative branch adds a density to a probability: without the floor 1/√2π a negative row's loss goes to −∞ at
    mu = 0 and sigma → 0. The model's mass is near 1 and not 1; that of :class:`EsjMass` is. The share of rows that
    convert is estimated by the complement of the negative branch, p·(1 − N(0; mu, sigma)).
    """

    def rows(self, log_p: Tensor, log_q: Tensor, mu: Tensor, sigma: Tensor, v: Tensor) -> Tensor:
        """Loss (n,)."""
        bought = log_p + log_normal(v, mu, sigma) - v
        nothing = torch.logaddexp(log_q, log_p + log_normal(torch.zeros_like(v), mu, sigma))
        return -torch.where(v > 0, bought, nothing)

    def conversion(self, p: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
        """p·(1 − N(0; mu, sigma)): at one p, mu and sigma for all rows its maximum likelihood is their share."""
        return -p * torch.expm1(log_normal(torch.zeros_like(mu), mu, sigma))

    def amount(self, mu: Tensor, sigma: Tensor) -> Tensor:
        """exp(mu + sigma²/2) − 1."""
        return torch.expm1(mu + 0.5 * sigma.square())


class EsjMass(Esj):
    """Variant with a total mass of 1: a latent v* ~ N(mu, sigma), and a purchase when v* exceeds log 2.

    positive  −[log p + log N(v; mu, sigma) − v]
    negative  −log[(1 − p) + p·Φ((log 2 − mu) / sigma)]

    Mu may lie below 0, where most latent amounts fall short; with p = 1 this is a censored regression (Tobin 1958), in
    which rows without a purchase determine mu.
    """

    signed: ClassVar[bool] = True

    def mu(self, raw: Tensor) -> Tensor:
        """Location in [−25, 25]: a latent amount may lie far below the least purchase."""
        return raw.clamp(-LARGEST_MU, LARGEST_MU)

    def start(self, share: float, v: Tensor, weight: Tensor) -> tuple[float, float, float]:
        """The constants of most likelihood, up to p ≤ 0.98: the truncated normal with the moments of v, and p after it.

        Of the excess x = v − log 2 the ratio E[x²]/E[x]² falls with a = (mu − log 2)/sigma, from 2 to 1. From the mean
        and the spread of purchases alone descent ends where p explains everything and the rows without a purchase have
        no weight. Where all but every row converts the share says no more of a than that it is large, and p is it.
        """
        over = (v - LEAST).clamp(min=0.0)
        first, second = float((weight * over).sum()), float((weight * over.square()).sum())
        if not (share and first):
            return super().start(share, v, weight)
        above = np.linspace(float(ndtri(min(share / MOST_SURE, MOST_SURE))), FARTHEST, 2001)
        hazard = np.exp(-0.5 * above**2 - LOG_SQRT_2PI - log_ndtr(above))
        ratio = (1 + above**2 + above * hazard) / (above + hazard) ** 2
        best = int(np.abs(ratio - second / first**2).argmin())
        sigma = first / float(above[best] + hazard[best])
        p = min(share / float(np.exp(log_ndtr(above[best]))), max(share, MOST_SURE))
        return p, LEAST + float(above[best]) * sigma, sigma

    def rows(self, log_p: Tensor, log_q: Tensor, mu: Tensor, sigma: Tensor, v: Tensor) -> Tensor:
        """Loss (n,)."""
        bought = log_p + log_normal(v, mu, sigma) - v
        nothing = torch.logaddexp(log_q, log_p + torch.special.log_ndtr((LEAST - mu) / sigma))
        return -torch.where(v > 0, bought, nothing)

    def conversion(self, p: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
        """p·Φ((mu − log 2)/sigma): of possible buyers, those whose latent amount reaches the least purchase."""
        share: Tensor = p * torch.special.ndtr((mu - LEAST) / sigma)
        return share

    def amount(self, mu: Tensor, sigma: Tensor) -> Tensor:
        """The mean of the truncated lognormal, ∫_{v > log 2} (e^v − 1)·N(v; mu, sigma) dv over the share above log 2.

        In closed form e^{mu + sigma²/2}·Φ((mu + sigma² − log 2)/sigma) / Φ((mu − log 2)/sigma) − 1, the quotient as the
        exponential of a difference of logs: far below log 2 both shares are nothing.
        """
        above = (mu - LEAST) / sigma
        share = torch.special.log_ndtr(above + sigma) - torch.special.log_ndtr(above)
        mean: Tensor = torch.expm1(mu + 0.5 * sigma.square() + share)
        return mean

    def log_amount(self, mu: Tensor, sigma: Tensor) -> Tensor:
        """Mean of the truncated normal, mu + sigma·φ(a)/Φ(a) with a = (mu − log 2)/sigma."""
        above = (mu - LEAST) / sigma
        hazard = torch.exp(-0.5 * above.square() - LOG_SQRT_2PI - torch.special.log_ndtr(above))
        mean: Tensor = mu + sigma * hazard
        return mean


class Cragg(EsjMass):
    """Two parts (Cragg 1971): cross-entropy, and of positives alone the lognormal truncated at the least purchase.

    Like :class:`EsjMass`, except that amounts are not learned from rows without a purchase.
    """

    def rows(self, log_p: Tensor, log_q: Tensor, mu: Tensor, sigma: Tensor, v: Tensor) -> Tensor:
        """Loss (n,)."""
        bought = log_normal(v, mu, sigma) - torch.special.log_ndtr((mu - LEAST) / sigma) - v
        return -torch.where(v > 0, log_p + bought, log_q)

    def start(self, share: float, v: Tensor, weight: Tensor) -> tuple[float, float, float]:
        """Share, mean and spread of purchases."""
        return AmountLoss.start(self, share, v, weight)

    def conversion(self, p: Tensor, _mu: Tensor, _sigma: Tensor) -> Tensor:
        """p."""
        return p


class Ziln(AmountLoss):
    """Zero-inflated lognormal (Wang, Liu and Miao 2019): cross-entropy, and the lognormal of PA on positives only.

    Sigma has no floor but the root of the machine's epsilon, as theirs; a negative row's amount is replaced by 1.
    """

    floor: ClassVar[float] = 0.0
    signed: ClassVar[bool] = True

    def mu(self, raw: Tensor) -> Tensor:
        """Unbounded."""
        return raw

    def sigma(self, raw: Tensor) -> Tensor:
        """softplus, at least √eps."""
        return softplus(raw).clamp(min=math.sqrt(torch.finfo(raw.dtype).eps))

    def rows(self, log_p: Tensor, log_q: Tensor, mu: Tensor, sigma: Tensor, v: Tensor) -> Tensor:
        """Loss (n,)."""
        bought = v > 0
        log_amount = torch.expm1(torch.where(bought, v, torch.full_like(v, LEAST))).log()
        return -torch.where(bought, log_p + log_normal(log_amount, mu, sigma) - log_amount, log_q)

    def amount(self, mu: Tensor, sigma: Tensor) -> Tensor:
        """exp(mu + sigma²/2)."""
        return torch.exp(mu + 0.5 * sigma.square())

    def log_amount(self, mu: Tensor, sigma: Tensor) -> Tensor:
        """E[log(1 + e^w)] of w ~ N(mu, sigma), by Gauss–Hermite quadrature."""
        w = mu[..., None] + sigma[..., None] * mu.new_tensor(NODES)
        mean: Tensor = softplus(w) @ mu.new_tensor(WEIGHTS)
        return mean


class SquaredError(AmountLoss):
    """Cross-entropy, and half the squared error of v on positives: a lognormal whose sigma is not learned."""

    outputs: ClassVar[int] = 1

    def rows(self, log_p: Tensor, log_q: Tensor, mu: Tensor, _sigma: Tensor, v: Tensor) -> Tensor:
        """Loss (n,)."""
        return torch.where(v > 0, 0.5 * (v - mu).square() - log_p, -log_q)

    def amount(self, mu: Tensor, _sigma: Tensor) -> Tensor:
        """exp(mu) − 1: the median, which is all there is without a sigma."""
        return torch.expm1(mu)


class ConversionOnly(AmountLoss):
    """Cross-entropy alone: every conversion has the same amount."""

    outputs: ClassVar[int] = 0

    def rows(self, log_p: Tensor, log_q: Tensor, _mu: Tensor, _sigma: Tensor, v: Tensor) -> Tensor:
        """Loss (n,)."""
        return -torch.where(v > 0, log_p, log_q)

    def amount(self, mu: Tensor, _sigma: Tensor) -> Tensor:
        """1."""
        return torch.ones_like(mu)

    def log_amount(self, mu: Tensor, _sigma: Tensor) -> Tensor:
        """log 2."""
        return torch.full_like(mu, LEAST)


class ValueOnly(AmountLoss):
    """Half the squared error of v on every row: the expected log-amount of a delivery, in one regression."""

    outputs: ClassVar[int] = 1

    def rows(self, _log_p: Tensor, _log_q: Tensor, mu: Tensor, _sigma: Tensor, v: Tensor) -> Tensor:
        """Loss (n,)."""
        return 0.5 * (v - mu).square()

    def amount(self, mu: Tensor, _sigma: Tensor) -> Tensor:
        """exp(mu) − 1, of a delivery and not of a conversion."""
        return torch.expm1(mu)


LOSSES: dict[str, AmountLoss] = {
    "esj": Esj(),
    "esj_mass": EsjMass(),
    "cragg": Cragg(),
    "ziln": Ziln(),
    "mse": SquaredError(),
    "conversion": ConversionOnly(),
    "value": ValueOnly(),
}
"""Losses by name."""
