"""Figures of the use of money, and of the value of other budgets."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from shadowprice.currency import Currency
from shadowprice.evaluation.policy.worth import Worth
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.pacing.questions import Answer
from shadowprice.reports import svg
from shadowprice.reports.mix import Mix
from shadowprice.reports.wording import LOWEST, MISSING, clipped, money, number, signed

LEGEND = 60
"""Characters of a legend's line."""


def mix(found: Mix, side: str, levels_of_side: Sequence[str], unit: str = "money") -> str:
    """Mix of a side by level, by segment and by hour, as SVG with one panel each.

    Args:
        found: the mix.
        side: of the market.
        levels_of_side: name of each level.
        unit: of what the levels cost.
    """
    levels = found.by(side, "level", "incentive")
    named = {-1: "none"} | {level: clipped(name, 18) for level, name in enumerate(levels_of_side)}
    names = [named.get(level, MISSING) for level in levels["level"]]
    shades = dict(zip(levels["level"], np.linspace(0.15, 1.0, len(levels)), strict=True))
    with svg.figure(10.6, 3.6, ncols=3, width_ratios=[1.4, 1.3, 2.1]) as (drawn, (by_level, by_segment, by_hour)):
        place = np.arange(len(levels))
        requests, paid = (levels[name] / max(levels[name].sum(), 1) for name in ("requests", "cost"))
        by_level.bar(place - 0.2, requests, width=0.38, color=svg.MUTED, label="requests")
        by_level.bar(place + 0.2, paid, width=0.38, color=svg.MODEL, label=unit)
        by_level.set_xticks(place, names, rotation=45, ha="right")
        by_level.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        by_level.set_title("Share by incentive")
        svg.legend_above(by_level, 2)
        _segments(by_segment, found, side, shades)
        _hours(by_hour, found, side, shades, dict(zip(levels["level"], names, strict=True)))
        return svg.to_svg(drawn, f"mix-{side}", f"Incentives of {side}s by level, segment and hour")


def budget_curve(answers: Sequence[Answer], current: float, unit: str, currency: Currency, least: str = LOWEST) -> str:
    """Extra responses and price of money against the budget, with intervals and the current point, as SVG.

    ``least`` names the level that responses are counted from.
    """
    shown = [answer for answer in answers if np.isfinite(answer.added.value)]
    x = np.array([point.budget for point in shown])
    with svg.figure(10.6, 3.4, ncols=2) as (drawn, (value, price)):
        for axes, estimates, factor in (
            (value, [point.added for point in shown], 1.0),
            (price, [point.price for point in shown], float(currency.unit)),
        ):
            y, low, high = (
                factor * np.array([getattr(estimate, name) for estimate in estimates])
                for name in ("value", "low", "high")
            )
            axes.fill_between(x, low, np.where(np.isfinite(high), high, y), color=svg.MODEL, alpha=0.2, linewidth=0)
            axes.plot(x, y, color=svg.MODEL, linewidth=2.2)
            axes.axvline(current, color=svg.BUDGET, linewidth=1.2, linestyle=svg.DASHED)
            for point, at, middle in zip(shown, x, y, strict=True):
                svg.tell(axes, at, middle, f"{money(point.budget, currency)}: {number(float(middle))}")
            here = np.flatnonzero(np.isclose(x, current))
            axes.plot(x[here], y[here], "o", color=svg.BUDGET, markersize=6)
            axes.set_ylim(0, 1.12 * float(np.nanmax(y, initial=0.0)) or 1.0)
            axes.set_xlabel("Budget")
            svg.ticks(axes, "x", lambda minor: money(minor, currency).removesuffix("." + "0" * currency.digits), most=5)
            svg.ticks(axes, "y", number)
        value.annotate(
            "now ",
            (current, 0),
            xytext=(0, 5),
            textcoords="offset points",
            color=svg.BUDGET,
            fontweight="bold",
            ha="right",
        )
        value.set_title(f"Extra {clipped(unit, 30)} over {clipped(least)}")
        price.set_title(f"λ: {clipped(unit, 30)} that one more {currency.one} brings")
        return svg.to_svg(drawn, "budget-curve", "Extra responses and price of money against the budget")


def places_curve(points: Sequence[tuple[int, Estimate]], current: int, currency: Currency) -> str:
    """Predicted value of a delivery against its number of places, with intervals and the current number, as SVG."""
    x = np.array([places for places, _ in points], dtype=np.float64)
    with svg.figure(10.6, 3.4) as (drawn, axes):
        _banded(axes, x, [value for _, value in points])
        axes.axvline(current, color=svg.BUDGET, linewidth=1.2, linestyle=svg.DASHED)
        for at, (places, value) in zip(x, points, strict=True):
            svg.tell(axes, at, value.value, f"{places:,} places: {money(value.value, currency)}")
            if places == current:
                axes.plot(at, value.value, "o", color=svg.BUDGET, markersize=6)
        axes.set_ylim(0, 1.12 * max((value.value for _, value in points), default=0.0) or 1.0)
        axes.set(xlabel="Places of all segments", title="Predicted value of the plan; the line is today's number")
        svg.ticks(axes, "x", lambda places: f"{places:,.0f}", most=5)
        svg.ticks(axes, "y", lambda minor: money(minor, currency).removesuffix("." + "0" * currency.digits))
        return svg.to_svg(drawn, "places-curve", "Predicted value against the number of places")


def worth_curve(found: Worth, unit: str, currency: Currency, least: str = LOWEST) -> str:
    """Worth of a policy against the budget, as SVG: above the lowest level, ``least``, and the best flat mixture.

    Each has its band. Where the truth is known, true means are dots.
    """
    points = found.points
    x = np.array([point.share for point in points])
    flat, gap = (
        np.array([point.flat_lowest.value for point in points]),
        np.array([point.true_flat for point in points]),
    )
    truth = np.array([point.true_lowest for point in points])
    with svg.figure(10.6, 3.9, ncols=2, width_ratios=[1.4, 1]) as (drawn, (lowest, over)):
        _banded(lowest, x, [point.lowest for point in points], label="an incentive for each account")
        lowest.plot(x, flat, color=svg.STATIC, linestyle=svg.DASHED, label="best flat mixture at the same cost")
        _banded(over, x, [point.flat for point in points])
        if np.isfinite(truth).any():
            lowest.plot(x, truth, "o", color=svg.TRUTH, markersize=3.5, label="true means")
            lowest.plot(x, truth - gap, "o", color=svg.TRUTH, markersize=3.5)
            over.plot(x, gap, "o", color=svg.TRUTH, markersize=3.5)
        for axes, name in ((lowest, "lowest"), (over, "flat")):
            axes.axvline(1.0, color=svg.BUDGET, linewidth=1.2, linestyle=svg.DASHED)
            axes.axhline(0, color=svg.MUTED, linewidth=0.8)
            axes.set_xlabel("Share of the campaign's budget")
            for point in points:
                value = getattr(point, name).value
                svg.tell(axes, point.share, value, f"{money(point.budget, currency)}: {signed(value)}")
            axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
            svg.ticks(axes, "y", number)
        lowest.set_title(f"Extra {clipped(unit, 30)} over {clipped(least)}")
        over.set_title("The same over the best flat mixture")
        svg.legend_above(lowest, 3)
        return svg.to_svg(drawn, "worth", "Extra responses against the budget: personal incentives and flat mixtures")


def _banded(axes: Axes, x: NDArray[np.float64], found: Sequence[Estimate], **line: Any) -> None:
    """Draw a line with its band."""
    value, low, high = (np.array([getattr(estimate, name) for estimate in found]) for name in ("value", "low", "high"))
    axes.fill_between(x, low, high, color=svg.MODEL, alpha=0.2, linewidth=0)
    axes.plot(x, value, color=svg.MODEL, linewidth=2.4, **line)


def _segments(axes: Axes, found: Mix, side: str, shades: dict[Any, float]) -> None:
    cells = found.by(side, "segment", "level").pivot_table(
        index="segment", columns="level", values="requests", fill_value=0
    )
    shares = cells.div(cells.sum(axis=1), axis=0)
    left = np.zeros(len(shares))
    for level in shares.columns:
        axes.barh(np.arange(len(shares)), shares[level], left=left, height=0.7, **_shade(level, shades))
        left += shares[level].to_numpy()
    axes.set_yticks(np.arange(len(shares)), [clipped(name, 18) for name in shares.index])
    axes.tick_params(axis="y", labelcolor=svg.INK)
    axes.grid(visible=False)
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.invert_yaxis()
    axes.set_title("Requests by segment")


def _hours(axes: Axes, found: Mix, side: str, shades: dict[Any, float], names: dict[Any, str]) -> None:
    cells = found.by(side, "hour", "level").pivot_table(index="hour", columns="level", values="requests", fill_value=0)
    # One outline for each level is drawn sooner than a bar for each hour.
    edges = np.arange(cells.index.min(), cells.index.max() + 2)
    cells = cells.reindex(edges[:-1], fill_value=0)
    below = np.zeros(len(cells))
    for level in cells.columns:
        above = below + cells[level].to_numpy()
        axes.stairs(above, edges, baseline=below, fill=True, linewidth=0, label=names[level], **_shade(level, shades))
        below = above
    axes.set_xlim(edges[0], edges[-1])
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
    axes.set_xlabel("Hour of the campaign")
    axes.set_title("Requests by hour")
    svg.ticks(axes, "y", number)
    svg.legend_above(axes, min(len(names), 5, max(1, LEGEND // max(map(len, names.values())))))


def _shade(level: Any, shades: dict[Any, float]) -> dict[str, Any]:
    return {"color": svg.GRID if level < 0 else svg.MODEL, "alpha": 1.0 if level < 0 else shades[level]}
