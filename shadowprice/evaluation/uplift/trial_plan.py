"""Size of the randomized trial that would identify the effect of an incentive."""

import math
from dataclasses import dataclass

from numpy.typing import ArrayLike
from scipy import special

from shadowprice.checks import require
from shadowprice.curves import check_levels
from shadowprice.errors import InvalidInput

LARGEST_SHARE = 0.2
"""Share of the traffic that a trial takes at most; it lasts longer instead."""
WEEK = 7


@dataclass(frozen=True)
class TrialPlan:
    """Two levels given at random, half of the requests each.

    lowest, highest  the levels, minor units: the ends of the range have the greatest power for a slope
    requests         of both levels together
    days             length of the trial
    share            of the requests of those days
    slope            response per minor unit that it would find
    power            probability that the interval of its slope then lies above 0
    """

    lowest: int
    highest: int
    requests: int
    days: int
    share: float
    slope: float
    power: float

    def __str__(self) -> str:
        """One sentence for the campaign."""
        return (
            f"a trial that gives {self.lowest} and {self.highest} minor units at random, half each, to "
            f"{self.requests:,} requests ({self.share:.1%} of the requests of {self.days} days) would identify a slope "
            f"of {self.slope:.3g} per minor unit with {self.power:.0%} power"
        )


def plan_trial(
    levels: ArrayLike,
    response: float,
    slope: float,
    requests_per_day: float,
    *,
    variance: float | None = None,
    power: float = 0.8,
    level: float = 0.95,
) -> TrialPlan:
    """Plan the smallest two-level trial that finds a slope.

    Args:
        levels: (J,) incentive levels, minor units, ascending; at least two.
        response: mean response at the lowest level.
        slope: response per minor unit that the trial must be able to find, above 0.
        requests_per_day: of the campaign.
        variance: of one response at either level; that of a probability when None.
        power: probability of finding it.
        level: of the two-sided interval that must lie above 0.

    n per level = (z_(1+level)/2 + z_power)²·(V_low + V_high)/(slope·(highest − lowest))².

    Raises:
        InvalidInput: a number out of its range, or a probability that the slope takes to 1 or above.

    Example:
        >>> plan_trial([100, 5000], 0.07, 1e-5, 5000.0).requests
        1112
    """
    amounts = check_levels(levels)
    require(amounts.size >= 2, "levels", "needs at least two levels to compare")
    if not slope > 0:
        raise InvalidInput(f"must be above 0, got {slope:g}; name the smallest slope worth finding", field="slope")
    if not requests_per_day > 0:
        raise InvalidInput(f"must be above 0, got {requests_per_day:g}", field="requests_per_day")
    require(0 < power < 1 and 0 < level < 1, "power, level", "must lie between 0 and 1")
    gain = slope * float(amounts[-1] - amounts[0])
    if variance is None:
        top = response + gain
        if not (0 <= response < 1 and top < 1):
            raise InvalidInput(f"must stay between 0 and 1, got {response:g} to {top:g}", field="response")
        spread = response * (1 - response) + top * (1 - top)
    elif variance > 0:
        spread = 2 * variance
    else:
        raise InvalidInput(f"must be above 0, got {variance:g}", field="variance")
    z = float(special.ndtri((1 + level) / 2) + special.ndtri(power))
    requests = 2 * math.ceil(z * z * spread / gain**2)
    days = max(WEEK, math.ceil(requests / (LARGEST_SHARE * requests_per_day)))
    return TrialPlan(
        int(amounts[0]), int(amounts[-1]), requests, days, requests / (requests_per_day * days), slope, power
    )
