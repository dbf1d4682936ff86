"""Ratio of spend to the curves' expectation, estimated during the day."""

import math

import numpy as np

from shadowprice.campaign import Campaign
from shadowprice.pacing.spend import SpendReport
from shadowprice.price import PriceRecord

HOURLY_DRIFT = 0.02
"""Standard deviation by which the ratio is held to move in an hour, relative to itself."""
REQUEST_VARIATION = 1.5
"""Standard deviation of what a request is paid, relative to its mean: most take nothing, some their whole incentive."""
SURPRISE = 2.0
"""Largest factor between spend and plan that counts, so that one wrong total has little effect."""
LARGEST = 4.0
"""The ratio stays within this factor of 1."""


def spend_ratio(
    campaign: Campaign,
    newest: PriceRecord | None,
    spend: SpendReport,
    committed: float,
    at: float | None,
    model_version: str,
) -> float:
    """Return the newest price's ratio, corrected by the money paid since over that of its plan for as many requests.

    Args:
        campaign: one with a total; of a mean, what is paid and what is earned move together, so its ratio stays 1.
        newest: the price active since; 1 is returned where there is none of this window.
        spend: totals now; more requests than forecast are not a surprise of the curves.
        committed: minor units paid, and expected cost of open authorizations.
        at: hours since the window opened.
        model_version: that of the curves; another model starts at 1.

    The ratio is a local level: a random walk with the step :data:`HOURLY_DRIFT`·√hours, seen through the mean of n
    requests with the deviation :data:`REQUEST_VARIATION`/√n; requests cost what the plan has for as many. With q
    the ratio of the two variances, the steady-state Kalman gain is (√(q² + 4q) − q)/2 (Harvey, Forecasting,
    Structural Time Series Models and the Kalman Filter, 1989, section 4.1.2). A price that a step has bounded or a
    controller has moved is not the one its plan was made with, and teaches nothing. O(1).
    """
    if campaign.budget.form != "total" or newest is None or newest.model_version != model_version:
        return 1.0
    asked = sum(spend.requests.values()) - newest.requests
    hours = 0.0 if at is None else at - newest.at
    if newest.status != "optimal" or len(newest.plan) < 2 or newest.expected <= 0 or asked <= 0 or hours <= 0:
        return newest.spend_ratio
    planned = float(np.interp(newest.requests + asked, newest.arrivals, newest.plan)) - newest.plan[0]
    if planned <= 0:
        return newest.spend_ratio
    q = hours * HOURLY_DRIFT**2 * asked / REQUEST_VARIATION**2
    gain = (math.sqrt(q * q + 4 * q) - q) / 2
    seen = min(max((committed - newest.plan[0]) / planned, 1 / SURPRISE), SURPRISE)
    ratio = newest.spend_ratio * (1 + gain * (seen - 1))
    return min(max(ratio, 1 / LARGEST), LARGEST)
