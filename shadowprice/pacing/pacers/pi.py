"""Proportional–integral control of the logarithm of one price."""

from collections.abc import Sequence
from dataclasses import dataclass

from shadowprice.pacing.pacers.base import every
from shadowprice.pacing.pacers.steered import committed, steered
from shadowprice.pacing.resolve import CampaignState, Resolution


@dataclass(frozen=True)
class ProportionalIntegral:
    """log λ follows the spend's distance from the first solve's plan.

    With e the distance as a share of the money planned for the whole window, every step moves log λ by
    ``proportional``·(e − e before) + ``integral``·e: the velocity form, which needs nothing but the last
    price and does not wind up while the price cannot move.

    steps  prices in every slot
    """

    proportional: float = 4.0
    integral: float = 1.0
    steps: int = 1

    def moments(self, hours: int) -> Sequence[float]:
        """Evenly through every slot."""
        return every([self.steps] * hours)

    def price(self, state: CampaignState) -> Resolution | None:
        """Solved once for each model, then moved."""
        newest = state.own
        if newest is None or len(newest.plan) < 2:
            return state.solve()
        whole = newest.plan[-1]
        if whole <= 0:
            return None
        error = (committed(state) - newest.planned(state.at)) / whole
        # Where nothing was paid by then, the relative error does not say how much was planned.
        paid = 1 + newest.pacing_error > 0
        before = newest.plan[0] * newest.pacing_error / (1 + newest.pacing_error) / whole if paid else error
        return steered(state, newest, self.proportional * (error - before) + self.integral * error)


PACERS = {"pi": ProportionalIntegral}
