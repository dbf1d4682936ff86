"""Pictures of the console: price and spend over the window, and who got what."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from serving.console.state import State
from shadowprice.currency import Currency
from shadowprice.reports import svg
from shadowprice.reports.wording import money, number

KEPT = 16


class Drawer:
    """Draws one figure at a time, as matplotlib needs, and keeps the newest by their content."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drawn: OrderedDict[Hashable, str] = OrderedDict()

    def draw(self, key: Hashable, make: Callable[[], str]) -> str:
        """Return the figure of a content, made where it is not kept."""
        with self._lock:
            if key not in self._drawn:
                self._drawn[key] = make()
                while len(self._drawn) > KEPT:
                    self._drawn.popitem(last=False)
            self._drawn.move_to_end(key)
            return self._drawn[key]


def pace(state: State, currency: Currency) -> str:
    """Price of money and money paid against the plan by hour of the window, as SVG with one panel each."""
    with svg.figure(10.6, 5.4, nrows=2, sharex=True, height_ratios=[1.3, 2]) as (drawn, (price, spend)):
        _price(price, state, currency)
        _spend(spend, state, currency)
        spend.set(xlim=(0, state.campaign.hours), xlabel="Hour of the campaign")
        spend.xaxis.set_major_locator(MaxNLocator(nbins=12, integer=True))
        return svg.to_svg(drawn, "pace", "Price of money and money paid by hour, against the plan")


def _price(axes: Axes, state: State, currency: Currency) -> None:
    at = [each.record.at for each in state.window]
    values = np.array([currency.unit * each.price for each in state.window])
    if at:
        axes.step([*at, max(state.hours, at[-1])], [*values, values[-1]], where="post", color=svg.MODEL)
        axes.plot(at, values, "o", color=svg.MODEL, markersize=3.5)
        room = 0.35 * max(float(np.ptp(values)), 0.05 * float(np.abs(values).max())) or 1.0
        axes.set_ylim(float(values.min()) - room, float(values.max()) + room)
    axes.set_title(f"Price of money λ: responses that {currency.symbol}1 must bring")
    svg.ticks(axes, "y", number, most=4)


def _spend(axes: Axes, state: State, currency: Currency) -> None:
    records = [each.record for each in state.window]
    top = float(state.paid or 0)
    plans = {"first plan": (svg.MUTED, svg.DOTTED), "newest plan": (svg.TRUTH, svg.DASHED)}
    planned = [record for record in records if len(record.plan) > 1]
    for (name, (colour, dashes)), record in zip(plans.items(), (planned[:1] + planned[-1:]), strict=False):
        ends = [record.at, *(max(record.slot, 0) + 1.0 + hour for hour in range(len(record.plan) - 1))]
        axes.plot(ends, record.plan, color=colour, linestyle=dashes, linewidth=1.5, label=name)
        top = max(top, *record.plan)
    # The ledger knows what was paid by now; each price has what was paid when it was solved.
    points = [(record.at, record.spent) for record in records]
    if state.paid is not None:
        points.append((max([state.hours, *(at for at, _ in points)]), state.paid))
    axes.plot(*zip(*points, strict=True) if points else ([], []), color=svg.MODEL, linewidth=2.4, label="paid")
    if state.campaign.budget.form == "total":
        limit = state.campaign.budget.limit
        axes.axhline(limit, color=svg.BUDGET, linewidth=1.4)
        axes.annotate(
            f"budget {money(limit, currency)}",
            (0, limit),
            xytext=(4, 5),
            textcoords="offset points",
            fontsize=8.5,
            fontweight="bold",
            color=svg.BUDGET,
        )
        top = max(top, limit)
    axes.set_ylim(0, 1.15 * top or 1.0)
    axes.set_title("Paid so far")
    svg.legend_above(axes)
    svg.ticks(axes, "y", lambda minor: money(minor, currency).removesuffix("." + "0" * currency.digits))
