"""Pictures of the console: price and spend over the window, and curves of the accounts."""

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from serving.console.curves import SideCurves
from serving.console.state import State
from shadowprice.campaign import Terms
from shadowprice.currency import Currency
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.reports import svg
from shadowprice.reports.headline import unit_of
from shadowprice.reports.wording import clipped, money, number, percent

KEPT = 16
ENDS = ("value", "low", "high")
RATE = {"customer": "Hazard per {}", "merchant": "Response that {} more adds"}


class Drawer:
    """Draws one figure at a time, as matplotlib needs, and keeps the newest by their content."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drawn: OrderedDict[Hashable, str] = OrderedDict()

    def draw(self, key: Hashable, make: Callable[[], str]) -> str:
        """Return the figure of a content; the newest ones are drawn once."""
        with self._lock:
            if key not in self._drawn:
                self._drawn[key] = make()
                while len(self._drawn) > KEPT:
                    self._drawn.popitem(last=False)
            self._drawn.move_to_end(key)
            return self._drawn[key]


def pace(state: State, currency: Currency) -> str:
    """Draw price, and money paid against the plan, by hour of the window, as SVG with one panel each."""
    with svg.figure(10.6, 5.4, nrows=2, sharex=True, height_ratios=[1.3, 2]) as (drawn, (price, spend)):
        _price(price, state, currency)
        _spend(spend, state, currency)
        spend.set(xlim=(0, state.campaign.hours), xlabel="Hour of the campaign")
        spend.xaxis.set_major_locator(MaxNLocator(nbins=12, integer=True))
        return svg.to_svg(drawn, "pace", "Price of money and money paid by hour, against the plan")


def _price(axes: Axes, state: State, currency: Currency) -> None:
    at = [change.record.at for change in state.window]
    values = np.array([currency.unit * change.price for change in state.window])
    if at:
        axes.step([*at, max(state.hours, at[-1])], [*values, values[-1]], where="post", color=svg.MODEL)
        axes.plot(at, values, "o", color=svg.MODEL, markersize=3.5)
        for change, hour, value in zip(state.window, at, values, strict=True):
            svg.tell(axes, hour, value, f"Hour {hour:.3g}: λ {number(value)}, version {change.record.version}")
        room = 0.35 * max(float(np.ptp(values)), 0.05 * float(np.abs(values).max())) or 1.0
        axes.set_ylim(float(values.min()) - room, float(values.max()) + room)
    unit = unit_of(state.campaign, currency) if state.campaign.in_money else "responses"
    axes.set_title(f"Price of money λ: {clipped(unit)} that {currency.one} must bring")
    svg.ticks(axes, "y", number, most=4)


def _spend(axes: Axes, state: State, currency: Currency) -> None:
    records = [change.record for change in state.window]
    top = float(state.paid or 0)
    plans = {"first plan": (svg.MUTED, svg.DOTTED), "newest plan": (svg.TRUTH, svg.DASHED)}
    planned = [record for record in records if len(record.plan) > 1]
    for (name, (color, dashes)), record in zip(plans.items(), (planned[:1] + planned[-1:]), strict=False):
        ends = [record.at, *(max(record.slot, 0) + 1.0 + hour for hour in range(len(record.plan) - 1))]
        axes.plot(ends, record.plan, color=color, linestyle=dashes, linewidth=1.5, label=name)
        top = max(top, *record.plan)
    # The ledger knows what was paid by now; each price has what was paid when it was solved.
    points = [(record.at, record.spent) for record in records]
    for record in records:
        planned_by = records[0].planned(record.at)
        label = f"Hour {record.at:.3g}: paid {money(record.spent, currency)}"
        svg.tell(axes, record.at, record.spent, label + _against(planned_by, currency))
    if state.paid is not None:
        points.append((max([state.hours, *(at for at, _ in points)]), state.paid))
    axes.plot(*zip(*points, strict=True) if points else ([], []), color=svg.MODEL, linewidth=2.4, label="paid")
    if state.outlook is not None:
        ahead = state.outlook
        band = ahead.at, ahead.low, ahead.high
        axes.fill_between(*band, label="if the price stays", color=svg.MODEL, alpha=0.18, linewidth=0)
        end = f"Hour {ahead.at[-1]:.3g}, if the price stays: {money(ahead.expected[-1], currency)} paid, "
        end += f"{ahead.level:.0%} between {money(ahead.low[-1], currency)} and {money(ahead.high[-1], currency)}"
        svg.tell(axes, float(ahead.at[-1]), float(ahead.expected[-1]), end)
        top = max(top, float(ahead.high[-1]))
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


def _against(planned: float, currency: Currency) -> str:
    return "" if math.isnan(planned) else f"; the first plan had {money(planned, currency)}"


def curves(found: SideCurves, currency: Currency, terms: Terms) -> str:
    """Draw response and rate by incentive, as SVG with two panels for each group of accounts.

    Levels that are numbers of offers have no rate.
    """
    named = dict(enumerate(terms.names(currency)))
    levels = np.arange(len(named), dtype=np.float64) if terms.amounts else np.array(found.levels) / currency.unit
    count, rows = len(found.groups), 1 if terms.amounts else 2
    with svg.figure(10.6, 2.7 * rows, nrows=rows, ncols=count, sharex=True, sharey="row", squeeze=False) as (
        drawn,
        axes,
    ):
        for group, panels in zip(found.groups, axes.T, strict=True):
            panels[0].fill_between(levels, group.low, group.high, color=svg.MODEL, alpha=0.18, linewidth=0)
            intervals = {level: estimate for level, (estimate, _) in group.seen.items()}
            shown = (
                (group.mean, intervals, 1),
                (group.rate * currency.unit, group.seen_rate, currency.unit),
            )
            for panel, (values, seen, unit) in zip(panels, shown[:rows], strict=True):
                panel.plot(levels, values, "o-" if terms.ordered else "o", color=svg.MODEL, markersize=3, label="model")
                for level, (x, y) in enumerate(zip(levels, values, strict=True)):
                    if np.isfinite(y):
                        svg.tell(panel, x, y, f"{group.name}, {named[level]}: {number(float(y))}")
                _explored(panel, levels, seen, unit, named)
            panels[0].set_title(f"{group.name}:\n{percent(group.requests)} of requests")
            if terms.amounts:
                panels[-1].set_xticks(
                    levels, [clipped(name, 14) for name in terms.offers or named.values()], rotation=30, ha="right"
                )
            else:
                panels[-1].set_xlabel(f"Incentive, {currency.major}")
        for row, name in zip(axes, ("Expected response", RATE[found.side].format(currency.one))[:rows], strict=True):
            row[0].set_ylabel(name)
            row[0].set_ylim(bottom=0)
            svg.ticks(row[0], "y", number)
        if found.explored:
            svg.legend_above(axes[0, 0], 2)
        return svg.to_svg(
            drawn, f"curves-{found.side}", f"Response of {found.side}s by incentive and group of accounts"
        )


def _explored(
    axes: Axes, levels: NDArray[np.float64], seen: Mapping[int, Estimate], unit: int, named: Mapping[int, str]
) -> None:
    """Means of explored requests, with their intervals as lines."""
    x = levels[list(seen)]
    value, low, high = (unit * np.array([getattr(estimate, name) for estimate in seen.values()]) for name in ENDS)
    axes.vlines(x, low, high, color=svg.OBSERVED, linewidth=1.4)
    axes.plot(x, value, "D", color=svg.OBSERVED, markersize=4, label="explored requests")
    for level, at, middle, *ends in zip(seen, x, value, low, high, strict=True):
        interval = f"[{number(float(ends[0]))}, {number(float(ends[1]))}]" if np.isfinite(ends).all() else ""
        svg.tell(axes, at, middle, f"explored, {named[level]}: {number(float(middle))} {interval}")
