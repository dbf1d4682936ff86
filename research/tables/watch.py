"""False alarms and delay of the watch on a served model, on planted drifts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from scipy import special, stats

from research.table import Primary, Rows, Summary, Table
from shadowprice.watch.reference import Reference
from shadowprice.watch.registry import CHECKS

LEVELS, DAYS, DAILY, SINCE, TOLERANCE = 3, 20, 300, 8, 0.2
BASE = special.logit([0.15, 0.25, 0.35])
DAILY_TEST = "calibration by a daily z test"
NULL: dict[str, dict[str, float]] = {"false alarms": {}, "false alarms, error at the tolerance": {"error": TOLERANCE}}
DRIFTS: dict[str, dict[str, float]] = {"rise": {"common": 0.6}, "slope": {"slope": 1.0}, "accounts": {"moved": 0.6}}


def requests(
    rng: np.random.Generator, *, error: float = 0.0, common: float = 0.0, slope: float = 0.0, moved: float = 0.0
) -> pd.DataFrame:
    """Return explored requests; after SINCE days the odds of a response rise, by level or for all, or accounts move."""
    day = np.repeat(np.arange(DAYS), DAILY)
    late = day >= SINCE
    level = rng.integers(0, LEVELS, day.size)
    odds = BASE[level] + rng.normal(moved * late, 0.5)
    truth = special.expit(odds + error + late * (common + slope * level / (LEVELS - 1)))
    return pd.DataFrame(
        {
            "side": "customer",
            "level": level,
            "day": day,
            "predicted": special.expit(odds),
            "response": (rng.random(day.size) < truth).astype(float),
            "explored": True,
        }
    )


def first_alarms(rows: pd.DataFrame, reference: Reference) -> dict[str, int]:
    """Return check → day of its first alarm in daily runs; DAYS where there is none."""
    found = {}
    for name, check in CHECKS.items():
        days = [each.day for each in check(rows, reference) if each.alarm] if name != "stability" else []
        if name == "stability":
            upto = (rows[rows["day"] <= day] for day in range(DAYS))
            days = [day for day, part in enumerate(upto) if any(each.alarm for each in check(part, reference))]
        found[name] = min(days, default=DAYS)
    return found | {DAILY_TEST: daily_test(rows, reference)}


def daily_test(rows: pd.DataFrame, reference: Reference) -> int:
    """Return the first day on which a z test of all rows so far rejects, at the same rate and tolerance."""
    odds = special.logit(rows["predicted"].to_numpy())
    y, day, level = (rows[name].to_numpy() for name in ("response", "day", "level"))
    limit = float(stats.norm.isf(reference.rate / (2 * reference.groups)))
    alarms = []
    for at in range(LEVELS):
        own = level == at
        for sign in (1.0, -1.0):
            bound = special.expit(odds[own] + sign * reference.tolerance)
            excess = np.cumsum(np.bincount(day[own], sign * (y[own] - bound), DAYS))
            spread = np.sqrt(np.cumsum(np.bincount(day[own], bound * (1 - bound), DAYS)))
            alarms += np.flatnonzero(excess > limit * spread)[:1].tolist()
    return int(min(alarms, default=DAYS))


def run(seed: int, quick: bool) -> Rows:
    rng = np.random.default_rng(seed)
    predicted = special.expit(BASE[:, None] + rng.normal(0, 0.5, 4000))
    labels = {("customer", level): (4000, float(predicted[level].mean())) for level in range(LEVELS)}
    reference = Reference(
        levels={"customer": LEVELS}, tolerance=TOLERANCE, predicted={"customer": predicted}, labels=labels
    )

    def once(**drift: float) -> dict[str, int]:
        return first_alarms(requests(rng, **drift), reference)

    return alarms(once, NULL, DRIFTS, (20, 10) if quick else (100, 30))


def alarms(
    once: Callable[..., Mapping[str, int]],
    null: Mapping[str, Mapping[str, float]],
    drifts: Mapping[str, Mapping[str, float]],
    runs: tuple[int, int],
) -> Rows:
    """Shares of false alarms, and of alarms with their mean delay in days, of each way to watch.

    Args:
        once: draws a run with a drift; returns way → day of its first alarm, DAYS where there is none.
        null: name → drift that must not alarm; drifts: those that must.
        runs: number of runs of each of ``null``, and of each of ``drifts``.
    """
    rows: dict[str, dict[str, float]] = {}
    for count, given, found in zip(runs, (null, drifts), ("{}", "found: {}"), strict=True):
        for name, drift in given.items():
            for way, day in pd.DataFrame([once(**drift) for _ in range(count)]).items():
                own = rows.setdefault(str(way), {})
                own[found.format(name)] = float((day < DAYS).mean())
                if given is drifts:
                    own[f"delay in days: {name}"] = float((day - SINCE).clip(lower=0).mean())
    return rows


def reading(found: Summary) -> str:
    edge = {row: found.cell(row, "false alarms, error at the tolerance").value for row in found.rows}
    delay = found.cell("calibration", "delay in days: rise").value
    return (
        f"At the edge of the tolerance, calibration alarms falsely in {edge['calibration']:.1%} of {DAYS} days' runs, "
        f"and a z test that is read daily in {edge[DAILY_TEST]:.1%}; both state 5 %. A rise of 0.6 log odds is found "
        f"after {delay:.1f} days of {DAILY} requests on average. A drift that is never found counts as "
        f"{DAYS - SINCE} days."
    )


TABLE = Table(
    title="Watch on a served model: false alarms and delay",
    source="the e-process of Ramdas et al. (2023), Waudby-Smith et al. (2024) for the slope",
    data=f"{DAYS} days of {DAILY} explored requests at {LEVELS} levels; drifts from day {SINCE}: odds of all levels "
    "up by 0.6, of the highest by 1.0, or accounts that respond more; 100 runs a seed without and 30 with a "
    "drift; simulated",
    run=run,
    reading=reading,
    primary=Primary("false alarms, error at the tolerance", "calibration", DAILY_TEST, effect=0.05, spread=0.03),
    compare=[("delay in days: rise", "calibration", DAILY_TEST)],
    fewer_is_better=[*NULL, *(f"delay in days: {name}" for name in DRIFTS)],
    also=("false alarms", "delay in days: slope", "delay in days: accounts"),
)
