"""Picture of a campaign window: arrivals, price and spend by hour."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from shadowprice.currency import Currency
from shadowprice.reports import svg
from shadowprice.reports.data import Role, Scenario
from shadowprice.reports.wording import clipped, money, number

Hours = NDArray[np.float64]

COLORS: dict[Role, str] = {"resolved": svg.MODEL, "static": svg.STATIC, "hindsight": svg.HINDSIGHT}
DASHES: dict[Role, Any] = {"resolved": "-", "static": (0, (5, 2)), "hindsight": (0, (7, 1.5, 1.5, 1.5))}
PLAN: dict[str, Any] = {"color": svg.MUTED, "linestyle": svg.DOTTED, "linewidth": 1.4}


def hours(scenario: Scenario, currency: Currency, unit: str, key: str) -> str:
    """Arrivals, price of money and money spent so far, by hour, as SVG with one panel each."""
    count = len(scenario.arrivals)
    edges = np.arange(count + 1, dtype=np.float64)
    with svg.figure(10.6, 5.2, nrows=3, sharex=True, height_ratios=[1, 1.6, 2.6]) as (drawn, (arrivals, price, spend)):
        arrivals.bar(edges[:-1] + 0.5, scenario.arrivals, width=0.82, color=svg.MUTED, alpha=0.55)
        arrivals.set_ylim(bottom=0)
        _price(price, scenario, currency, edges)
        _spend(spend, scenario, currency, edges)
        arrivals.set_title("Requests in the hour")
        price.set_title(f"Price of money λ: {clipped(unit)} that {currency.one} must bring")
        spend.set_title("Paid so far")
        svg.ticks(arrivals, "y", number, most=3)
        svg.ticks(price, "y", number, most=4)
        svg.ticks(spend, "y", lambda minor: money(minor, currency).removesuffix("." + "0" * currency.digits))
        spend.set(xlim=(0, count), xlabel="Hour of the campaign")
        spend.xaxis.set_major_locator(MaxNLocator(nbins=12, integer=True))
        return svg.to_svg(drawn, f"hours-{key}", f"Requests, price and spend by hour: {scenario.name}")


def _price(axes: Axes, scenario: Scenario, currency: Currency, edges: Hours) -> None:
    prices = [(policy.price, _line(policy.role)) for policy in scenario.policies[::-1]]
    seen = [(currency.unit * price, line) for price, line in prices if price is not None and np.isfinite(price).any()]
    for price, line in seen:
        svg.steps(axes, price, edges, **line)
    if seen:
        low, high = min(np.nanmin(price) for price, _ in seen), max(np.nanmax(price) for price, _ in seen)
        room = 0.35 * max(high - low, 0.05 * high) or 1.0
        axes.set_ylim(max(0.0, low - room), high + room)


def _spend(axes: Axes, scenario: Scenario, currency: Currency, edges: Hours) -> None:
    top = max(policy.total for policy in scenario.policies)
    for policy in scenario.policies:
        axes.plot(edges, _so_far(policy.spend), label=clipped(policy.name), zorder=3, **_line(policy.role))
    if scenario.planned_spend is not None:
        axes.plot(edges, _so_far(scenario.planned_spend), label="planned at each hour's solve", **PLAN)
    if scenario.budget.form == "total":
        limit = scenario.budget.limit
        axes.axhline(limit, color=svg.BUDGET, linewidth=1.4)
        _beside(axes, f"budget {money(limit, currency)}", (0, limit), (4, 5), color=svg.BUDGET, fontweight="bold")
        top = max(top, limit)
    axes.set_ylim(0, 1.12 * top or 1.0)
    axes.legend(loc="lower right")


def _so_far(hourly: Hours) -> Hours:
    return np.concatenate([[0.0], np.nancumsum(hourly)])


def _line(role: Role) -> dict[str, Any]:
    width = 2.4 if role == "resolved" else 1.6
    return {"color": COLORS[role], "linestyle": DASHES[role], "linewidth": width}


def _beside(axes: Axes, text: str, at: tuple[float, float], offset: tuple[float, float], **font: Any) -> None:
    axes.annotate(text, at, xytext=offset, textcoords="offset points", fontsize=8.5, **font)
