"""Pictures of what incentives do: response, hazard and calibration, one side of the market each."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from shadowprice.evaluation.calibration import CalibrationTable
from shadowprice.evaluation.change_points import ChangePoints
from shadowprice.evaluation.per_level import ResponseByLevel
from shadowprice.reports.data import Currency
from shadowprice.reports.svg import (
    GRID,
    HINDSIGHT,
    MODEL,
    MUTED,
    OBSERVED,
    STATIC,
    TRUTH,
    figure,
    legend_above,
    ticks,
    to_svg,
)
from shadowprice.reports.wording import incentives, number

Array = NDArray[np.float64]
HALF = (5.3, 3.5)
"""Inches of a figure that takes half the page's width."""


def response_by_level(
    found: ResponseByLevel, side: str, currency: Currency, changes: ChangePoints | None = None
) -> str:
    """Observed mean response with intervals, mean prediction and truth against incentive value, as SVG."""
    x, unit = incentives(found.levels, currency)
    scale, label = (100.0, "Respond, %") if side == "customer" else (1.0, "Shares, ratio to before")
    with figure(*HALF) as (drawn, axes):
        if found.truth is not None:
            axes.plot(x, scale * found.truth, color=TRUTH, linestyle=(0, (4, 2.5)), label="truth")
        axes.plot(x, scale * found.predicted, color=MODEL, marker="o", markersize=3.5, label="model")
        _bars(axes, x, scale * found.observed, scale * found.low, scale * found.high, "observed, 95 % interval")
        axes.set_ylim(bottom=0)
        axes.set(xlabel=f"Incentive, {unit}", ylabel=label)
        _amounts(axes, x)
        if changes is not None:
            _mark(axes, changes, x, found.levels)
        ticks(axes, "y", number)
        legend_above(axes)
        return to_svg(drawn, f"response-{side}", f"Response of {side}s by incentive: observed, model and truth")


def hazard_by_level(
    found: ChangePoints,
    side: str,
    currency: Currency,
    levels: NDArray[np.int64],
    model: Array | None = None,
    truth: Array | None = None,
) -> str:
    """Hazard rate by incentive value, as SVG: one rate per level, the segments chosen, model, truth.

    ``model`` and ``truth`` (J,) are rates of each level's segment per minor unit.
    """
    edges = np.r_[0, levels[levels > 0]]
    _, unit = incentives(edges, currency)
    divisor = 100.0 if unit == currency.major else 1.0
    per = 100.0
    with figure(*HALF) as (drawn, axes):
        free = found.free
        middle = (free.edges[1:] + free.edges[:-1]) / 2 / divisor
        error = 1.96 * np.nan_to_num(free.standard_error)
        low, high = np.maximum(free.hazard - error, 0), free.hazard + error
        for rates, colour, style, name in (
            (truth, TRUTH, (0, (4, 2.5)), "truth"),
            (model, HINDSIGHT, "-", "model"),
        ):
            if rates is not None:
                axes.stairs(per * rates[levels > 0], edges / divisor, baseline=None, color=colour, linestyle=style, linewidth=1.5, label=name)
        chosen = found.segments
        axes.stairs(per * chosen.hazard, chosen.edges / divisor, baseline=None, color=MODEL, linewidth=2.4, label="segments found")
        _bars(axes, middle, per * free.hazard, per * low, per * high, "one rate per level")
        top = np.nanmax(np.r_[per * free.hazard, per * chosen.hazard]) if free.hazard.size else 1.0
        axes.set_ylim(0, 1.45 * top)
        axes.set(xlabel=f"Incentive, {unit}", ylabel=f"Hazard rate, per {currency.symbol}1")
        _amounts(axes, edges / divisor)
        _mark(axes, found, edges / divisor, edges)
        ticks(axes, "y", number)
        legend_above(axes)
        return to_svg(drawn, f"hazard-{side}", f"Hazard rate of {side}s by incentive, with change points")


def calibration(before: CalibrationTable, after: CalibrationTable | None, side: str) -> str:
    """Observed against predicted response in equally filled bins, as SVG."""
    scale, unit = (100.0, "%") if side == "customer" else (1.0, "ratio to before")
    drawn_tables = [(before, MODEL, "as trained")] if after is None else [
        (before, STATIC, "as trained"),
        (after, MODEL, "after isotonic repair"),
    ]
    with figure(*HALF) as (drawn, axes):
        seen = np.concatenate([np.r_[table.predicted, table.high] for table, _, _ in drawn_tables])
        top = scale * float(np.nanmax(seen, initial=0.0)) * 1.04 or 1.0
        axes.plot([0, top], [0, top], color=MUTED, linewidth=1.0, linestyle=(0, (1, 2)), label="perfect")
        for table, colour, name in drawn_tables:
            axes.vlines(scale * table.predicted, scale * table.low, scale * table.high, color=colour, linewidth=1.2, alpha=0.6)
            axes.plot(scale * table.predicted, scale * table.observed, color=colour, marker="o", markersize=4, linewidth=1.2, label=name)
        axes.set(xlim=(0, top), ylim=(0, top), xlabel=f"Predicted, {unit}", ylabel=f"Observed, {unit}")
        axes.grid(axis="x", color=GRID)
        ticks(axes, "x", number)
        ticks(axes, "y", number)
        legend_above(axes)
        return to_svg(drawn, f"calibration-{side}", f"Observed against predicted response of {side}s")


def _bars(axes: Axes, x: Array, middle: Array, low: Array, high: Array, label: str) -> None:
    axes.errorbar(
        x,
        middle,
        yerr=[np.maximum(middle - low, 0), np.maximum(high - middle, 0)],
        fmt="o",
        color=OBSERVED,
        markersize=4,
        elinewidth=1.2,
        capsize=2.5,
        label=label,
    )


def _amounts(axes: Axes, x: Array) -> None:
    step = max(1, -(-x.size // 9))
    axes.set_xticks(x[::-1][::step][::-1], [number(value) for value in x[::-1][::step][::-1]])


def _mark(axes: Axes, changes: ChangePoints, x: Array, amounts: NDArray[np.int64]) -> None:
    for at in changes.at:
        place = float(np.interp(at, amounts, x))
        axes.axvline(place, color=MUTED, linewidth=1.0, linestyle=(0, (1, 2)), zorder=0)
        axes.annotate(
            number(place),
            (place, 1.0),
            xycoords=axes.get_xaxis_transform(),
            textcoords="offset points",
            xytext=(3, -9),
            fontsize=8.5,
            fontweight="bold",
            color=MUTED,
        )
