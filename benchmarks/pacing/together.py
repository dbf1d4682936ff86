"""Several campaigns of one ledger, replayed at the same time."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Condition

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.errors import InvalidInput
from shadowprice.limits import check_alike
from shadowprice.pacing.pacers import Pacer
from shadowprice.pacing.replay.compare import Setting
from shadowprice.pacing.replay.day import Day
from shadowprice.pacing.replay.ledger import SimulatedLedger
from shadowprice.pacing.replay.policies import PricedPolicy, Pricing
from shadowprice.pacing.replay.run import Answers, Replay, System, replay
from shadowprice.pacing.resolve import Resolution


class Turns:
    """Order of time among several replays: each waits until no other has something to do before."""

    def __init__(self, replays: int) -> None:
        self._next = [0.0] * replays
        self._changed = Condition()

    def wait(self, place: int, at: float) -> None:
        """Return when ``at`` is the earliest time of all; of equal times the first replay comes first."""
        with self._changed:
            self._next[place] = at
            self._changed.notify_all()
            self._changed.wait_for(lambda: min(zip(self._next, range(len(self._next)), strict=True))[1] == place)

    def leave(self, place: int) -> None:
        """Let the others go on without this replay."""
        with self._changed:
            self._next[place] = np.inf
            self._changed.notify_all()


def replay_together(
    settings: Sequence[Setting], pacer: Callable[[Setting], Pacer], *, batch: int = 16
) -> dict[str, Replay]:
    """Return campaign → its day, replayed with the hard stop and with the limits that the campaigns share.

    Args:
        settings: of each campaign; all windows start at the same time.
        pacer: gives the pacer of a campaign.
        batch: most requests of one campaign that are decided together.

    Raises:
        InvalidInput: windows of different starts, or a shared limit that is not described alike.
    """
    if len({each.campaign.starts_at for each in settings}) > 1:
        raise InvalidInput("of all campaigns must be the same", field="starts_at")
    check_alike({each.campaign.name: each.campaign.limits for each in settings})
    ledgers = [SimulatedLedger(each.campaign, each.history, each.coverage, partners=each.partners) for each in settings]
    for ledger in ledgers:
        ledger.beside = [each for each in ledgers if each is not ledger]
    turns = Turns(len(settings))

    def run(place: int) -> Replay:
        setting, ledger = settings[place], ledgers[place]
        policy = PricedPolicy(setting.campaign, setting.model, ledger, hard_stop=True, groups=setting.groups)
        pricing = Pricing(policy, setting.forecast, pacer(setting))

        def decide_batch(some: Day) -> Answers:
            turns.wait(place, float(some.at[0]))
            return policy(some)

        def reprice(at: float, observed: Mapping[Side, NDArray[np.int64]]) -> Resolution | None:
            turns.wait(place, at)
            return pricing(at, observed)

        try:
            return replay(
                setting.day,
                setting.campaign,
                setting.outcomes,
                System(decide_batch, ledger.settle, reprice),
                moments=pricing.moments,
                batch=batch,
                progress=False,
            )
        finally:
            turns.leave(place)

    with ThreadPoolExecutor(len(settings)) as pool:
        found = list(pool.map(run, range(len(settings))))
    return {setting.campaign.name: run for setting, run in zip(settings, found, strict=True)}
