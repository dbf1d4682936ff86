"""Days that pacing has to get through: what goes wrong, and when. Every one of them is simulated."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from shadowprice.decision import uniform
from shadowprice.errors import NotFound
from shadowprice.pacing.pacers import Pacer
from shadowprice.pacing.replay.compare import Setting, run_pacer
from shadowprice.pacing.replay.day import Day
from shadowprice.pacing.replay.run import Replay


@dataclass(frozen=True)
class Scenario:
    """One kind of day.

    shock          slot → factor on its arrivals
    drift          factor on every true response at the window's end; it is 1 at noon and before, linear after
    feed_down      hours (from, to) in which the spend cannot be read
    store_down     hours (from, to) in which no price can be published
    replicas_down  hours (from, to) in which every second request gets no answer; it is sent again within ten
                   minutes after
    """

    description: str
    shock: Mapping[int, float] = field(default_factory=dict)
    drift: float = 1.0
    feed_down: tuple[float, float] = (0.0, 0.0)
    store_down: tuple[float, float] = (0.0, 0.0)
    replicas_down: tuple[float, float] = (0.0, 0.0)

    def apply(self, setting: Setting) -> Setting:
        """The setting with this day's truth; its arrivals must have been drawn with :attr:`shock`."""
        hours = setting.day.hours
        drift = None
        if self.drift != 1.0:
            late = np.clip((np.arange(hours) + 0.5 - hours / 2) / (hours / 2), 0.0, 1.0)
            drift = 1.0 + (self.drift - 1.0) * late
        return replace(
            setting, day=_sent_again(setting.day, *self.replicas_down), outcomes=replace(setting.outcomes, drift=drift)
        )

    def run(self, setting: Setting, pacer: Pacer, *, delay: float = 0.0, batch: int = 1024) -> Replay:
        """The day under a pacer, with the hard stop on. ``setting`` is what :meth:`apply` gave."""
        return run_pacer(
            setting,
            pacer,
            hard_stop=setting.campaign.budget.form == "total",
            feed_down=self.feed_down,
            store_down=self.store_down,
            delay=delay,
            batch=batch,
        )


SCENARIOS: dict[str, Scenario] = {
    "stationary": Scenario("arrivals and responses as forecast"),
    "noon_shock": Scenario("twice the arrivals from 12 to 13 h", shock={12: 2.0}),
    "response_drift": Scenario("every response falls from noon on, to 70 % at the end", drift=0.7),
    "dead_feed": Scenario(
        "twice the arrivals at noon, and no spend to be read from 11 to 15 h", {12: 2.0}, 1.0, (11, 15)
    ),
    "store_down": Scenario(
        "twice the arrivals at noon, and no price to be published from 11 to 15 h", {12: 2.0}, store_down=(11, 15)
    ),
    "replicas_dying": Scenario(
        "every second request from 15 to 16 h gets no answer and is sent again after", replicas_down=(15, 16)
    ),
}


def scenario(name: str) -> Scenario:
    if name not in SCENARIOS:
        raise NotFound(f"scenario {name!r} is unknown; choose one of {list(SCENARIOS)}")
    return SCENARIOS[name]


def _sent_again(day: Day, since: float, until: float) -> Day:
    if until <= since:
        return day
    at = day.at.copy()
    inside = np.flatnonzero((at >= since) & (at < until))
    luck: NDArray[np.float64] = np.array([uniform(name, b"replica") for name in day.request_id[inside].tolist()])
    lost = inside[luck < 0.5]
    at[lost] = np.minimum(until + luck[luck < 0.5] * 2 / 6, np.nextafter(day.hours, 0))
    order = np.argsort(at, kind="stable")
    return Day(day.request_id[order], day.account_id[order], day.side[order], at[order], day.hours)
