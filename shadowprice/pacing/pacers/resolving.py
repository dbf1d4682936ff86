"""Solving the rest of the window again and again."""

from collections.abc import Sequence
from dataclasses import dataclass

from shadowprice.pacing.pacers.base import every
from shadowprice.pacing.resolve import CampaignState, Resolution


@dataclass(frozen=True)
class Resolving:
    """Model predictive control: every time the optimum of all that is left (S0, section 5).

    steps        solves in every slot
    last_steps   solves in the window's last slot, where nothing is left to make up for an error
    """

    steps: int = 1
    last_steps: int = 1

    def moments(self, hours: int) -> Sequence[float]:
        """The start of each slot, and as often within it as asked."""
        return every([self.steps] * (hours - 1) + [self.last_steps])

    def price(self, state: CampaignState) -> Resolution | None:
        """The price of the money that is left."""
        return state.solve()


PACERS = {
    "hourly": Resolving,
    "closing": lambda last_steps=12: Resolving(last_steps=last_steps),
    "rolling": lambda steps=12: Resolving(steps, steps),
}
