"""Incentives in percent of an order: what one pays, and what it pays in expectation."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.campaign.fields import check_whole
from shadowprice.currency import Currency
from shadowprice.errors import InvalidInput

Real = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Percent:
    """Incentive of a level in percent of the order's amount; its cap is the amount of the level.

    share  percent of the amount, above 0 and at most 100
    least  smallest amount of an order that it is paid for, minor units; a response below it costs nothing
    """

    share: float
    least: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.share, bool) or not isinstance(self.share, int | float) or not 0 < self.share <= 100:
            raise InvalidInput(f"must be a number above 0 and at most 100, got {self.share!r}", field="percent.share")
        check_whole(self.least, 0, "minor units", "percent.least")

    def name(self, cap: int, currency: Currency) -> str:
        """Name of the incentive, as a person reads it.

        >>> Percent(share=20, least=3000).name(1000, Currency())
        '20 % up to $10.00 from $30.00'
        """
        start = f" from {currency.write(self.least)}" if self.least else ""
        return f"{self.share:g} % up to {currency.write(cap)}{start}"

    def paid(self, amount: NDArray[np.floating[Any]], cap: int) -> Real:
        """Minor units paid for orders of the given amounts, of their shape; not rounded."""
        order = np.asarray(amount, dtype=np.float64)
        return np.where(order >= self.least, np.minimum(self.share / 100 * order, cap), 0.0)


def expected_payment(share: float, cap: float, least: float, mean: ArrayLike, deviation: ArrayLike) -> Real:
    """E[min(share · X, cap); X ≥ least] of lognormal amounts X, of the shape of ``mean`` and ``deviation``. O(n).

    With k = max(cap / share, least), z(a) = (ln a − μ) / σ and the normal distribution function Φ it is
    share · exp(μ + σ²/2) · [Φ(z(k) − σ) − Φ(z(least) − σ)] + cap · Φ(−z(k)), the limited expected value of a lognormal
    loss above a deductible (Klugman, Panjer and Willmot, Loss Models, appendix A). σ = 0 is the amount exp(μ) itself.

    Args:
        share: part of the amount that is paid, above 0.
        cap: largest payment.
        least: smallest amount that is paid for.
        mean, deviation: μ and σ ≥ 0 of ln X.
    """
    mu, sigma = np.broadcast_arrays(np.asarray(mean, dtype=np.float64), np.asarray(deviation, dtype=np.float64))
    low = _standard(math.log(least) if least > 0 else -math.inf, mu, sigma)
    high = np.maximum(_standard(math.log(cap / share), mu, sigma), low)
    # A difference of two probabilities near 1 is that of their complements, which keeps its digits.
    sign = np.where(low > sigma, -1.0, 1.0)
    between = sign * (_below(sign * (high - sigma)) - _below(sign * (low - sigma)))
    with np.errstate(over="ignore"):
        mean_amount = np.exp(mu + sigma**2 / 2)
    part = np.multiply(share * mean_amount, between, out=np.zeros(mu.shape), where=between > 0)
    return np.asarray(np.minimum(part + cap * _below(-high), cap))


def _standard(log_amount: float, mu: Real, sigma: Real) -> Real:
    """(ln a − μ) / σ; without a deviation −∞ where the amount exp(μ) is at least a, else ∞."""
    certain = np.where(log_amount <= mu, -np.inf, np.inf)
    return np.divide(log_amount - mu, sigma, out=certain, where=sigma > 0)


_erfc = np.frompyfunc(math.erfc, 1, 1)


def _below(z: Real) -> Real:
    """Φ(z). Serving has no scipy."""
    return np.asarray(0.5 * np.asarray(_erfc(-z / math.sqrt(2.0)), dtype=np.float64))
