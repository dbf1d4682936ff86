"""The newest price, renewed without a solve."""

from collections.abc import Sequence
from dataclasses import dataclass

from shadowprice.pacing.pacers.base import every
from shadowprice.pacing.pacers.steered import steered
from shadowprice.pacing.resolve import CampaignState, Resolution


@dataclass(frozen=True)
class Constant:
    """Renews the newest price every hour, so that it does not expire; reads no curves but for open authorizations.

    The safe price while a model is in doubt: no new solve relies on its curves.
    """

    def moments(self, hours: int) -> Sequence[float]:
        """Every hour."""
        return every([1] * hours)

    def price(self, state: CampaignState) -> Resolution | None:
        """Return the newest price with the new spend; solve where the model has none, or its plan ended."""
        newest = state.own
        if newest is None or len(newest.plan) < 2:
            return state.solve()
        return steered(state, newest, 0.0)


PACERS = {"constant": Constant}
