"""One price for the whole window."""

from collections.abc import Sequence

from shadowprice.pacing.resolve import CampaignState, Resolution


class Static:
    """Solves once for each model, from the forecast alone, and keeps that price."""

    def moments(self, hours: int) -> Sequence[float]:  # noqa: ARG002
        """The opening."""
        return [0.0]

    def price(self, state: CampaignState) -> Resolution | None:
        """The first price; None once there is one of this window and model."""
        return state.solve() if state.own is None else None


PACERS = {"static": Static}
