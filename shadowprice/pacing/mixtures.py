"""Chances of the levels that a price gives where all accounts of a side have one curve."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.policy import Choices

Mixtures = Mapping[Side, NDArray[np.float64]]
"""side → (J,), share of its requests that is given each level, whoever asks."""


def mixtures_at(
    campaign: Campaign, curves: Mapping[Side, Curves], prices: ArrayLike, tie_share: float
) -> dict[Side, NDArray[np.float64]]:
    """Shares (J,) of the levels of each side at the prices of :attr:`Campaign.priced`, for the curve of one account."""
    return {
        side: Choices.of(campaign, side, one.response).decide(prices, tie_share, [side]).policy.propensities()[:, 0]
        for side, one in curves.items()
    }
