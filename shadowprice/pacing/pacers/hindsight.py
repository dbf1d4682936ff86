"""The best fixed price, known only afterwards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shadowprice.campaign import Side
from shadowprice.curves import Curves
from shadowprice.pacing.resolve import CampaignState, Resolution

ROUNDING = 1e-6
"""Part of a budget that is left so that rounding keeps the cheapest levels possible."""


@dataclass(frozen=True, eq=False)
class Hindsight:
    """Solves once, on the curves of the requests that will really come.

    curves  side → (J, n), of every request of the window
    """

    curves: Mapping[Side, Curves]

    def moments(self, hours: int) -> Sequence[float]:  # noqa: ARG002
        """The opening."""
        return [0.0]

    def price(self, state: CampaignState) -> Resolution | None:
        """The optimum of the linear program over the window's own requests.

        Where even their cheapest levels cost more than the budget, it is that of as many requests as the budget covers.
        """
        if state.newest is not None:
            return None
        campaign, part = state.campaign, 1.0
        if campaign.budget.form == "total":
            costs = [
                campaign.net_cost(side, mine.response, amounts=mine.amounts).min(axis=0).sum()
                for side, mine in self.curves.items()
            ]
            part = min(1.0, (1.0 - ROUNDING) * campaign.budget.limit / max(float(sum(costs)), 1e-12))
        requests = {side: part * mine.accounts for side, mine in self.curves.items()}
        remaining = {side: np.full(campaign.hours, count / campaign.hours) for side, count in requests.items()}
        return replace(state, curves=lambda: self.curves, remaining=remaining).solve()


PACERS = {"hindsight": Hindsight}
