"""The hourly price, moved between solves by dual mirror descent."""

from collections.abc import Sequence
from dataclasses import dataclass

from shadowprice.pacing.pacers.base import every
from shadowprice.pacing.pacers.steered import committed, steered
from shadowprice.pacing.resolve import CampaignState, Resolution


@dataclass(frozen=True)
class MirrorDescent:
    """λ ← λ·exp(η·Σ (c/ρ − 1)) over the requests since the last price, c what each cost and ρ what it may cost.

    This is mirror descent on the dual with the entropy as its mirror map, with several requests to a step. Each hour's
    exact solve restarts it. ρ is the plan's spend to the end over the requests expected until then, so more requests
    than forecast do not change the price; the next solve counts them. Source: Balseiro, Lu and Mirrokni, Operations
    Research 2023, algorithm 1.

    steps  prices in every slot, the first of them solved
    gain   η times the requests expected in the rest of the window
    """

    steps: int = 12
    gain: float = 1.0

    def moments(self, hours: int) -> Sequence[float]:
        """Evenly through every slot."""
        return every([self.steps] * hours)

    def price(self, state: CampaignState) -> Resolution | None:
        """Solved at the first step of a slot, moved at the others."""
        newest = state.newest
        if (
            newest is None
            or len(newest.plan) < 2
            or not state.slot_and_step[1]
            or newest.slot != state.slot_and_step[0]
        ):
            return state.solve()
        money = newest.plan[-1] - newest.plan[0]
        if money <= 0 or newest.expected <= 0:
            return None
        asked = sum(state.spend.requests.values()) - newest.requests
        excess = (committed(state) - newest.plan[0]) / money - asked / newest.expected
        return steered(state, newest, self.gain * excess)


PACERS = {"mirror_descent": MirrorDescent}
