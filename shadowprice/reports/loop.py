"""Days with retrains as figures of the report and the summary; all of them simulated."""

from collections.abc import Mapping, Sequence
from typing import Any

from shadowprice.currency import Currency
from shadowprice.pacing.replay.loop import CLOSED, FROZEN, ORACLE, LoopDay

LOOP = "days with retrains, simulated"
"""Heading of the figures in the report."""
NAMES = {CLOSED: "closed_loop", FROZEN: "frozen", ORACLE: "oracle"}


def loop_summary(days: Sequence[LoopDay]) -> dict[str, Any]:
    """Return the ``loop`` part of summary.json: sums of all days, and each day.

    ``value`` is the true mean of the weighted response. ``largest_overspend`` is that of a day, minor units.
    """
    return {
        "simulated": True,
        "days": len(days),
        "models_taken": sum(day.retrained for day in days),
        "budget": sum(day.budget for day in days),
        "value": {name: sum(day.value[way] for day in days) for way, name in NAMES.items()},
        "spend": {name: sum(day.spend[way] for day in days) for way, name in NAMES.items()},
        "largest_overspend": {
            name: max(max(day.spend[way] - day.budget, 0.0) for day in days) for way, name in NAMES.items()
        },
        "by_day": [
            {name: day.value[way] for way, name in NAMES.items()} | {"retrained": day.retrained} for day in days
        ],
    }


def loop_sentence(loop: Mapping[str, Any], currency: Currency) -> str:
    """Return the outcome in words."""
    closed, frozen, oracle = (loop["value"][name] for name in NAMES.values())
    over = currency.write(loop["largest_overspend"]["closed_loop"])
    return (
        f"{loop['days']} days of a population that drifts (simulated), "
        f"{loop['models_taken']} retrained {'model' if loop['models_taken'] == 1 else 'models'} taken: "
        f"the closed loop has {closed / frozen - 1:+.1%} true value against the frozen model and "
        f"{closed / oracle:.1%} of that of the true curves. It overspends by {over} on a day at most."
    )


def loop_facts(days: Sequence[LoopDay]) -> dict[str, str | int | float]:
    """Return label → figure of the report's part about the data and the run."""
    summary = loop_summary(days)
    facts: dict[str, str | int | float] = {"days": summary["days"], "retrained models": summary["models_taken"]}
    for way, name in NAMES.items():
        facts[f"true value, {way}"] = round(summary["value"][name])
        facts[f"spend of the budget, {way}"] = f"{summary['spend'][name] / summary['budget']:.1%}"
    return facts
