"""Pictures of a campaign window: arrivals, price and spend by hour, and what each policy brought."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from shadowprice.reports.data import Currency, Role, Scenario
from shadowprice.reports.svg import BUDGET, GRID, HINDSIGHT, INK, MODEL, MUTED, STATIC, figure, ticks, to_svg
from shadowprice.reports.wording import money, number

COLOURS: dict[Role, str] = {"resolved": MODEL, "static": STATIC, "hindsight": HINDSIGHT}
DASHES: dict[Role, object] = {"resolved": "-", "static": (0, (5, 2)), "hindsight": (0, (1, 1.5))}


def hours(scenario: Scenario, currency: Currency, key: str) -> str:
    """Arrivals, price of money and money spent so far, by hour, as SVG with one panel each."""
    count = len(scenario.arrivals)
    edges = np.arange(count + 1)
    with figure(10.6, 6.4, nrows=3, sharex=True, height_ratios=[1, 1.6, 2.6]) as (drawn, (arrivals, price, spend)):
        arrivals.bar(edges[:-1] + 0.5, scenario.arrivals, width=0.82, color=MUTED, alpha=0.55)
        arrivals.set_title("Requests in the hour")
        price.set_title(f"Price of money λ, responses per {currency.symbol}1")
        spend.set_title("Spent so far")
        _price(price, scenario, edges)
        _spend(spend, scenario, currency, edges)
        for axes, write in ((arrivals, number), (price, number), (spend, lambda v: money(v, currency)[:-3])):
            ticks(axes, "y", write, most=4 if axes is not spend else 6)
        arrivals.set_ylim(bottom=0)
        spend.set(xlim=(0, count), xlabel="Hour of the campaign")
        spend.xaxis.set_major_locator(MaxNLocator(nbins=12, integer=True))
        drawn.align_ylabels()
        return to_svg(drawn, f"hours-{key}", f"Requests, price and spend by hour: {scenario.name}")


def _price(axes: Axes, scenario: Scenario, edges: np.ndarray) -> None:
    for policy in scenario.policies[::-1]:
        if policy.price is not None:
            axes.stairs(
                100 * policy.price,
                edges,
                baseline=None,
                color=COLOURS[policy.role],
                linestyle=DASHES[policy.role],
                linewidth=2.2 if policy.role == "resolved" else 1.5,
            )
    if scenario.planned_price is not None:
        axes.stairs(100 * scenario.planned_price, edges, baseline=None, color=MUTED, linestyle=(0, (1, 2)), linewidth=1.2)
    seen = [p.price for p in scenario.policies if p.price is not None]
    if seen and np.isfinite(np.concatenate(seen)).any():
        low, high = 100 * np.nanmin(np.concatenate(seen)), 100 * np.nanmax(np.concatenate(seen))
        room = max(high - low, 0.02 * high)
        axes.set_ylim(max(0, low - 0.35 * room), high + 0.35 * room)


def _spend(axes: Axes, scenario: Scenario, currency: Currency, edges: np.ndarray) -> None:
    if scenario.planned_spend is not None:
        axes.plot(edges, np.r_[0, np.cumsum(scenario.planned_spend)], color=MUTED, linestyle=(0, (1, 2)), linewidth=1.4, label="planned at the start")
    for policy in scenario.policies[::-1]:
        axes.plot(
            edges,
            np.r_[0, np.nancumsum(policy.spend)],
            color=COLOURS[policy.role],
            linestyle=DASHES[policy.role],
            linewidth=2.4 if policy.role == "resolved" else 1.6,
            label=policy.name,
        )
    top = max(policy.total for policy in scenario.policies)
    if scenario.budget.form == "total":
        limit = scenario.budget.limit
        axes.axhline(limit, color=BUDGET, linewidth=1.4)
        axes.annotate(f"budget {money(limit, currency)}", (0, limit), xytext=(4, 4), textcoords="offset points", color=BUDGET, fontsize=8.5, fontweight="bold")
        top = max(top, limit)
    axes.set_ylim(0, 1.12 * top or 1.0)
    handles, names = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], names[::-1], loc="lower right")


def values(scenarios: tuple[Scenario, ...], unit: str) -> str:
    """What each policy brought in each scenario, as bars (SVG); what overspent is hatched and says so."""
    rows = [(scenario, policy) for scenario in scenarios for policy in scenario.policies]
    gaps = np.cumsum([0.7 * (at > 0 and scenario is not rows[at - 1][0]) for at, (scenario, _) in enumerate(rows)])
    y = -(np.arange(len(rows)) + gaps)
    top = max(policy.value for _, policy in rows) or 1.0
    with figure(10.6, 0.5 + 0.34 * (len(rows) + float(gaps[-1])), nrows=1) as (drawn, axes):
        for place, (scenario, policy) in zip(y, rows, strict=True):
            over = scenario.excess(policy)
            late = over > 0.005
            axes.barh(place, policy.value, height=0.72, color=COLOURS[policy.role], alpha=0.45 if late else 0.9)
            best = scenario.policy("hindsight")
            told = number(policy.value)
            if best is not None and best is not policy and best.value > 0:
                told += f"  ({100 * policy.value / best.value:.1f} % of hindsight)"
            if late:
                told += f"  overspent by {100 * over:.1f} %"
            axes.annotate(told, (policy.value, place), xytext=(5, 0), textcoords="offset points", va="center", fontsize=8.5, color=BUDGET if late else INK)
        axes.set_yticks(y, [f"{policy.name} · {scenario.name}" for scenario, policy in rows])
        axes.set(xlim=(0, 1.34 * top), xlabel=f"Value, {unit}")
        axes.grid(visible=False, axis="y")
        axes.grid(visible=True, axis="x", color=GRID)
        axes.tick_params(axis="y", labelcolor=INK)
        ticks(axes, "x", number)
        return to_svg(drawn, "values", "What each policy brought in each scenario")
