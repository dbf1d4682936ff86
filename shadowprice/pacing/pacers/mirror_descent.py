"""The hourly price, moved between solves by dual mirror descent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shadowprice.pacing.pacers.base import Standing, every
from shadowprice.pacing.pacers.steered import committed, steered
from shadowprice.pacing.resolve import Resolution


@dataclass(frozen=True)
class MirrorDescent:
    """λ ← λ·exp(η·Σ (c/ρ − 1)) over the requests since the last price, c what each cost and ρ what it may cost.

    This is mirror descent on the dual with the entropy as its mirror map (Balseiro, Lu and Mirrokni,
    Operations Research 2023, algorithm 1 with several requests to a step), started afresh from each
    hour's exact solve. ρ is the plan's spend to the end over the requests expected until then, so more
    requests than forecast do not move the price; the next solve counts them.

    steps  prices in every slot, the first of them solved
    gain   η times the requests expected in the rest of the window
    """

    steps: int = 12
    gain: float = 1.0

    def moments(self, hours: int) -> Sequence[float]:
        """Evenly through every slot."""
        return every([self.steps] * hours)

    def price(self, standing: Standing) -> Resolution | None:
        """Solved at the first step of a slot, moved at the others."""
        newest = standing.newest
        if newest is None or len(newest.plan) < 2 or not standing.place[1] or newest.slot != standing.place[0]:
            return standing.solve()
        money = newest.plan[-1] - newest.plan[0]
        if money <= 0 or newest.expected <= 0:
            return None
        asked = sum(standing.spend.requests.values()) - newest.requests
        excess = (committed(standing) - newest.plan[0]) / money - asked / newest.expected
        return steered(standing, newest, self.gain * excess)
