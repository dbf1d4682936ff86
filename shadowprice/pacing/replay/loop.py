"""Days on which the model is trained again on what it served, beside a frozen model and the true curves."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from shadowprice.campaign import Side
from shadowprice.pacing.pacers import make_pacer
from shadowprice.pacing.replay.compare import Setting, run_pacer
from shadowprice.pacing.replay.outcomes import NamedCurves
from shadowprice.pacing.replay.run import Replay

CLOSED, FROZEN, ORACLE = "closed loop", "frozen model", "true curves"
"""Ways to decide."""

Retrain = Callable[[int, Replay], Mapping[Side, NamedCurves] | None]
"""Given a day and what the closed loop served on it, returns the curves of a new model; None keeps the model."""


@dataclass(frozen=True)
class LoopDay:
    """One day under each way to decide.

    budget     minor units of the day
    value      way → true mean of the weighted response
    spend      way → minor units paid, as drawn
    retrained  whether a new model decides from the next day on
    """

    day: int
    budget: float
    value: Mapping[str, float]
    spend: Mapping[str, float]
    retrained: bool


def run_loop(days: int, setting: Callable[[int], Setting], retrain: Retrain) -> Iterator[LoopDay]:
    """Replay each day under all ways with the same requests and the same luck, each with the hard stop.

    The closed loop explores as the campaign states. The frozen model and the true curves explore nothing: exploration
    costs value, and they learn nothing from it.

    Args:
        days: number of days.
        setting: day → the day, whose ``model`` is the frozen model.
        retrain: called after each day but the last.
    """
    current: Mapping[Side, NamedCurves] | None = None
    for day in range(days):
        day_setting = setting(day)
        still = replace(day_setting, campaign=replace(day_setting.campaign, exploration=0.0))
        ways = {
            CLOSED: replace(day_setting, model=current or day_setting.model),
            FROZEN: still,
            ORACLE: replace(still, model=day_setting.outcomes.truth),
        }
        played = {way: play(way_setting) for way, way_setting in ways.items()}
        fresh = retrain(day, played[CLOSED]) if day + 1 < days else None
        current = fresh or current
        yield LoopDay(
            day=day,
            budget=float(day_setting.campaign.budget.limit),
            value={way: true_value(run) for way, run in played.items()},
            spend={way: float(run.outcomes.cost.sum()) for way, run in played.items()},
            retrained=fresh is not None,
        )


def play(setting: Setting) -> Replay:
    """Replay a day with the campaign's pacer and the hard stop."""
    return run_pacer(setting, make_pacer(setting.campaign.pacer), hard_stop=True)


def true_value(played: Replay) -> float:
    """Return the true mean of the weighted response of a replayed day."""
    outcomes = played.outcomes
    return float(outcomes.worth @ outcomes.expected_response)
