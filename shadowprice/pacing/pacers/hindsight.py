"""The best fixed price, known only afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shadowprice.campaign import Side
from shadowprice.curves import Curves
from shadowprice.pacing.pacers.base import CampaignState
from shadowprice.pacing.resolve import Resolution


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
        """The optimum of the linear programme over the window's own requests."""
        if state.newest is not None:
            return None
        hours = state.campaign.hours
        remaining = {side: np.full(hours, mine.accounts / hours) for side, mine in self.curves.items()}
        return replace(state, curves=lambda: self.curves, remaining=remaining).solve()


PACERS = {"hindsight": Hindsight}
