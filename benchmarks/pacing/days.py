"""Ways of pacing a budget on days that go wrong: spend against the budget, value against hindsight, paired by seed.

``python -m benchmarks pacing`` takes some four minutes of processor time for its days and also writes
``docs/results/pacing.md``; ``--quick`` takes two seeds at a tenth of the size and writes no table.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from statsmodels.stats.multitest import multipletests

from benchmarks.cells import Cells
from benchmarks.pacing.market import DELAY_HOURS, market_day
from benchmarks.pacing.scenarios import SCENARIOS, Scenario
from shadowprice.evaluation.policy.attainable import Attainable
from shadowprice.pacing.exploration import explored
from shadowprice.pacing.pacers import make_pacer
from shadowprice.pacing.replay.compare import Setting, attainable, optimum

PACERS: tuple[str, ...] = ("static", "pi", "hourly", "closing", "mirror_descent")
JUDGED = ("closing", "hourly")
PRIMARY = ("stationary", "closing", "pi")
"""Day, pacer and other pacer of the comparison that the page is about; the others are adjusted by Holm's method."""
LEVEL = 0.05
SEEDS, REQUESTS = 20, 20_000
"""Seeds from 0 on; gains and steps of the pacers were chosen on seeds from 100 on."""
AIMED_AT = {"stationary": 0.99, "noon_shock": 0.97}
"""Days with a goal, and the share of the optimum it asks for; two days in five are enough of the others."""
EXPLORED = (0.01, 0.02, 0.05)
TABLE = Path(__file__).parents[2] / "docs" / "results" / "pacing.md"

Row = dict[str, float]
Days = dict[str, list[Row]]
"""Pacer → one row a day."""
Tested = dict[tuple[str, str, str], tuple[float, float]]
"""Kind of day, pacer, other pacer → mean difference of their shares of the optimum, p-value."""


def run(cells: Cells, quick: bool) -> dict[str, Any]:
    """Measure, print, and write the table unless ``quick``."""
    seeds, requests = (2, REQUESTS // 10) if quick else (SEEDS, REQUESTS)
    found: dict[str, Days] = {}
    fewer = max(seeds * 2 // 5, 2)
    for name, scenario in SCENARIOS.items():
        own = range(seeds if name in AIMED_AT else fewer)
        days = [cells.of(f"{name} {seed}", partial(one_day, scenario, seed, requests)) for seed in own]
        found[name] = {pacer: [day[pacer] for day in days] for pacer in PACERS}
        print(f"{name}: {scenario.description}\n{table(found[name])}\n", flush=True)
    delayed: Days = {}
    for pacer in ("hourly", "closing"):
        delayed[pacer] = [
            cells.of(f"delayed {pacer} {seed}", partial(one_delayed, pacer, seed, requests)) for seed in range(fewer)
        ]
    print(f"outcomes known after {DELAY_HOURS:g} h in the mean\n{table(delayed)}\n", flush=True)
    exploring: dict[float, list[Row]] = {}
    for share in EXPLORED:
        exploring[share] = [
            cells.of(f"exploring {share} {seed}", partial(one_exploring, share, seed, requests))
            for seed in range(max(seeds // 8, 2))
        ]
    if not quick:
        TABLE.parent.mkdir(parents=True, exist_ok=True)
        TABLE.write_text(page(found, delayed, exploring, requests))
    return {"seeds": seeds, "requests": requests, "pacing": found, "delayed": delayed}


def one_day(scenario: Scenario, seed: int, requests: int, pacers: Sequence[str] = PACERS) -> dict[str, Row]:
    """pacer → what it did on one day.

    ``spend`` relative to the budget less one; ``share`` of the value of the linear program's optimum on the day's
    own requests and true curves; ``gain`` of what that optimum adds to the best flat mixture of levels. All values
    are true means.
    """
    setting = scenario.apply(market_day(seed, requests, scenario.shock))
    yardstick = attainable(setting)
    return {name: _row(setting, scenario, name, yardstick) for name in pacers}


def one_delayed(pacer: str, seed: int, requests: int) -> Row:
    """A stationary day whose outcomes are known late."""
    scenario, setting = SCENARIOS["stationary"], market_day(seed, requests)
    return _row(setting, scenario, pacer, attainable(setting), DELAY_HOURS)


def one_exploring(share: float, seed: int, requests: int) -> Row:
    """A stationary day that explores: its loss, the money it took, and the rows that the rarest level is worth."""
    setting = market_day(seed, requests, exploration=share)
    played = SCENARIOS["stationary"].run(setting, make_pacer("closing"))
    report = explored(setting, played)
    best = optimum(setting)
    return {
        "value": _value(played.outcomes) / best,
        "lost": report.value_lost / best,
        "spend": report.spend / setting.campaign.budget.limit,
        "rows": min(float(rows.min()) for rows in report.effective_rows.values()),
        "requests": report.requests,
    }


def _row(setting: Setting, scenario: Scenario, pacer: str, yardstick: Attainable, delay: float = 0.0) -> Row:
    played = scenario.run(setting, make_pacer(pacer), delay=delay)
    value = _value(played.outcomes)
    return {
        "spend": float(played.outcomes.cost.sum()) / setting.campaign.budget.limit - 1,
        "share": value / yardstick.best,
        "gain": yardstick.share(value),
        "prices": len(played.prices),
    }


def _value(outcomes: Any) -> float:
    return float(outcomes.worth @ outcomes.expected_response)


def interval(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """Mean with its 95 % interval by Student's t over seeds."""
    mean = float(values.mean())
    low, high = stats.t.interval(0.95, values.size - 1, mean, stats.sem(values)) if np.ptp(values) > 0 else (mean, mean)
    return mean, float(low), float(high)


def significance(found: dict[str, Days]) -> Tested:
    """Paired t-tests of the judged pacers against all others on every kind of day.

    The p-value of :data:`PRIMARY` stands as it is; the others are adjusted together by Holm's method.
    """
    alone: Tested = {}
    for day, rows in found.items():
        share = {name: np.array([row["share"] for row in mine]) for name, mine in rows.items()}
        for pacer in JUDGED:
            for other in share.keys() - {pacer}:
                if pacer in share and (day, other, pacer) not in alone:
                    difference = share[pacer] - share[other]
                    p = float(stats.ttest_1samp(difference, 0.0).pvalue) if np.ptp(difference) > 0 else 1.0
                    alone[day, pacer, other] = float(difference.mean()), p
    others = [key for key in alone if key != PRIMARY]
    adjusted = multipletests([alone[key][1] for key in others], method="holm")[1] if others else []
    return alone | {key: (alone[key][0], float(p)) for key, p in zip(others, adjusted, strict=True)}


def table(rows: Days, p_values: Mapping[str, float] | None = None) -> str:
    """Markdown: one line per pacer, differences to ``closing`` paired by day, with their p-values where given."""
    lines = [
        "| pacer | spend − budget | share of the optimum | of the attainable gain | `closing` − it, paired | p |",
        "|---|---|---|---|---|---|",
    ]
    column = columns(rows)
    for name, mine in column.items():
        ahead = "" if name == "closing" else _shown(interval(column["closing"]["share"] - mine["share"]))
        p = (p_values or {}).get(name)
        spend = f"{mine['spend'].min():+.2%} to {mine['spend'].max():+.2%}"
        lines.append(
            f"| {name} | {spend} | {_shown(interval(mine['share']))} | "
            f"{_shown(interval(mine['gain']))} | {ahead} | "
            f"{'' if p is None else '< 0.001' if p < 0.001 else f'{p:.3f}'} |"
        )
    return "\n".join(lines)


def columns(rows: Days) -> dict[str, dict[str, NDArray[np.float64]]]:
    """pacer → figure → (seeds,)."""
    return {name: {key: np.array([row[key] for row in mine]) for key in mine[0]} for name, mine in rows.items()}


def goals(found: dict[str, Days], tests: Tested, pacers: Sequence[str] = JUDGED) -> str:
    """Markdown: each goal, and on which days each pacer met it, computed from the figures."""
    met: dict[str, dict[str, list[str]]] = {}
    for name, least in AIMED_AT.items():
        column = columns(found[name])
        for pacer in pacers:
            mine = column[pacer]
            for goal, is_met in (
                (_least(), interval(mine["share"])[1] >= least),
                ("never above the budget", bool((mine["spend"] <= 0).all())),
                ("within 0.3 % of the budget every day", bool((np.abs(mine["spend"]) <= 0.003).all())),
                *((f"better than {other}", _better(tests[name, pacer, other])) for other in ("static", "pi")),
            ):
                days = met.setdefault(goal, {}).setdefault(pacer, [])
                days += [name] if is_met else []
    lines = [f"| goal | {' | '.join(f'`{pacer}`' for pacer in pacers)} |", "|---|" + "---|" * len(pacers)]
    for goal, by_pacer in met.items():
        told = (
            "met" if len(days) == len(AIMED_AT) else f"met on {days[0]}" if days else "missed"
            for days in by_pacer.values()
        )
        lines.append(f"| {goal} | {' | '.join(told)} |")
    return "\n".join(lines)


def _least() -> str:
    shares = ", ".join(f"{least:.0%} of the optimum on {day}" for day, least in AIMED_AT.items())
    return f"lower end of the value at least {shares}"


def verdict(tests: Tested) -> str:
    day, pacer, other = PRIMARY
    difference, p = tests[PRIMARY]
    better = f"`{pacer}` is better than `{other}`" if difference > 0 else f"`{pacer}` is worse than `{other}`"
    if p >= LEVEL:
        better = f"`{pacer}` and `{other}` are not significantly different"
    return (
        f"**Verdict.** On {day} days {better} by the share of the optimum ({difference:+.2%}, p = {p:.2g}). All other "
        "comparisons are adjusted by Holm's method."
    )


def _better(found: tuple[float, float]) -> bool:
    return found[0] > 0 and found[1] < LEVEL


def _shown(found: tuple[float, float, float]) -> str:
    return f"{found[0]:.2%} [{found[1]:.2%}, {found[2]:.2%}]"


def _against(tests: Tested, day: str) -> dict[str, float]:
    """Pacer → p-value of its comparison with ``closing`` on one kind of day."""
    return {other: p for (name, pacer, other), (_, p) in tests.items() if (name, pacer) == (day, "closing")}


def _days(rows: Days) -> str:
    return f"{len(next(iter(rows.values())))} days"


def page(found: dict[str, Days], delayed: Days, exploring: dict[float, list[Row]], requests: int) -> str:
    tests = significance(found | {"outcomes known late": delayed})
    parts = [
        "# Pacing on days that go wrong",
        verdict(tests),
        f"Simulated: days of about {requests:,} requests (`benchmarks/pacing/market.py`) by the code that the service "
        "runs, with true curves and the hard stop on. The optimum is the linear program's over the day's own requests; "
        "the attainable gain is the optimum less the best flat mixture of levels within the same budget. Values are "
        "true means of the decisions, intervals 95 % by Student's t over days. Written by `python -m benchmarks "
        "pacing`.",
        "## Against the goals",
        goals(found, tests),
    ]
    alike: dict[str, list[str]] = {}
    for name, rows in found.items():
        alike.setdefault(table(rows, _against(tests, name)), []).append(name)
    for shown, names in alike.items():
        text = "; or ".join(SCENARIOS[name].description for name in names)
        parts += [f"## {', '.join(names)}", f"{text[0].upper()}{text[1:]}; {_days(found[names[0]])}.", shown]
    parts += [
        "## Outcomes known late",
        f"Stationary days; outcomes are known {DELAY_HOURS:g} h later in the mean; {_days(delayed)}.",
        table(delayed, _against(tests, "outcomes known late")),
    ]
    lines = [
        "| share explored | requests explored | of the budget | optimum lost | share of the optimum | "
        "effective rows of the rarest level |",
        "|---|---|---|---|---|---|",
    ]
    for share, days in exploring.items():
        mean = {key: float(np.mean([row[key] for row in days])) for key in days[0]}
        lines.append(
            f"| {share:.0%} | {mean['requests']:,.0f} | {mean['spend']:.2%} | {mean['lost']:.2%} | "
            f"{mean['value']:.2%} | {mean['rows']:,.0f} |"
        )
    parts += ["## Exploration", f"Means over {len(next(iter(exploring.values())))} stationary days.", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"
