"""Figures of response, hazard and calibration, each of one side of the market."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from shadowprice.currency import Currency
from shadowprice.evaluation.prediction.calibration import CalibrationTable
from shadowprice.evaluation.prediction.change_points import ChangePoints
from shadowprice.evaluation.prediction.per_level import ResponseByLevel
from shadowprice.evaluation.uplift.evidence import SideEvidence
from shadowprice.reports import svg
from shadowprice.reports.wording import clipped, incentives, number

Array = NDArray[np.float64]

HALF = (5.3, 3.5)
"""Inches of a figure that takes half the page's width."""


def response_by_level(
    found: ResponseByLevel,
    side: str,
    currency: Currency,
    changes: ChangePoints | None = None,
    offers: Sequence[str] = (),
    *,
    model: bool = True,
) -> str:
    """Observed mean response with intervals, mean prediction and truth by incentive value, or by ``offers``, as SVG.

    Without ``model`` the prediction is left out.
    """
    x, unit = incentives(found.levels, currency)
    line: dict[str, Any] = {"linestyle": "none"} if offers else {}
    scale, label = _response(side)
    with svg.figure(*HALF) as (drawn, axes):
        if found.truth is not None:
            dashed = {"marker": "_", "markersize": 14, **line} if offers else {"linestyle": svg.DASHED}
            axes.plot(x, scale * found.truth, color=svg.TRUTH, label="truth", **dashed)
        if model:
            axes.plot(x, scale * found.predicted, color=svg.MODEL, marker="o", markersize=3.5, label="model", **line)
        _bars(axes, x, scale * found.observed, scale * found.low, scale * found.high, "observed, 95 % interval")
        drawn_too = found.predicted if model else None
        known = [scale * mean for mean in (found.low, found.high, drawn_too, found.truth) if mean is not None]
        axes.set_ylim(*(ends := svg.shows_change(np.concatenate(known))))
        shown = "" if offers else f"Incentive, {unit}"
        axes.set(xlabel=shown, ylabel=f"Response, {label}{', not from 0' if ends[0] > 0 else ''}")
        if offers:
            axes.set_xticks(x, [clipped(name, 18) for name in offers])
            axes.set_xlim(-0.5, x[-1] + 0.5)
        else:
            _amounts(axes, x)
        if changes is not None:
            _mark(axes, changes, x, found.levels)
        svg.ticks(axes, "y", number)
        svg.legend_above(axes)
        return svg.to_svg(drawn, f"response-{side}", f"Response of {side}s by incentive: observed, model and truth")


def effect(found: SideEvidence, currency: Currency) -> str:
    """Difference of each level's response to the lowest one's, with its interval, as SVG."""
    levels = [level for level in found.levels if level.difference is not None]
    scale, label = (100.0, "percentage points") if found.side == "customer" else (1.0, "ratio to before")
    differences = [level.difference for level in levels if level.difference is not None]
    middle, low, high = (
        scale * np.array([getattr(difference, name) for difference in differences]) for name in ("value", "low", "high")
    )
    place = [level.incentive for level in levels] if found.ordered else range(len(levels))
    x = np.array(place, dtype=np.float64)
    with svg.figure(*HALF) as (drawn, axes):
        axes.axhline(0.0, color=svg.MUTED, linewidth=1.0, linestyle=svg.DOTTED, zorder=0)
        _bars(axes, x, middle, low, high, "difference, 95 % interval")
        axes.set(
            xlabel="Incentive" if found.ordered else "Offer",
            ylabel=f"More than at {found.lowest.written(currency)}, {label}",
        )
        axes.margins(x=0.12)
        _amounts(axes, x, [level.written(currency) for level in levels], apart=0.15)
        svg.ticks(axes, "y", number)
        title = f"Response of {found.side}s above that at {found.lowest.written(currency)}, by incentive"
        return svg.to_svg(drawn, f"effect-{found.side}", title)


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
    amounts = np.r_[0, levels[levels > 0]]
    shown, unit = incentives(amounts, currency)
    divisor = float(amounts[-1] / shown[-1])
    free, chosen = found.free, found.segments
    middle = (free.edges[1:] + free.edges[:-1]) / 2 / divisor
    error = 1.96 * np.nan_to_num(free.standard_error)
    low, high = np.maximum(free.hazard - error, 0), free.hazard + error
    with svg.figure(*HALF) as (drawn, axes):
        if truth is not None:
            svg.steps(
                axes,
                currency.unit * truth[levels > 0],
                shown,
                color=svg.TRUTH,
                linestyle=svg.DASHED,
                linewidth=1.8,
                label="truth",
            )
        if model is not None:
            svg.steps(axes, currency.unit * model[levels > 0], shown, color=svg.HINDSIGHT, linewidth=1.5, label="model")
        svg.steps(
            axes,
            currency.unit * chosen.hazard,
            chosen.edges / divisor,
            color=svg.MODEL,
            linewidth=2.4,
            label="segments found",
        )
        _bars(
            axes, middle, currency.unit * free.hazard, currency.unit * low, currency.unit * high, "one rate per level"
        )
        # The rate of a level where nearly all respond is near infinity and would flatten the rest.
        top = np.minimum(free.hazard, 3 * chosen.hazard.max(initial=0.0)).max(initial=0.0)
        axes.set_ylim(0, 1.45 * currency.unit * top or 1.0)
        axes.set(xlabel=f"Incentive, {unit}", ylabel=f"Hazard rate, per {currency.one}")
        _amounts(axes, shown)
        _mark(axes, found, shown, amounts)
        svg.ticks(axes, "y", number)
        svg.legend_above(axes)
        return svg.to_svg(drawn, f"hazard-{side}", f"Hazard rate of {side}s by incentive, with change points")


def calibration(before: CalibrationTable, after: CalibrationTable | None, side: str) -> str:
    """Observed against predicted response in equally filled bins, as SVG."""
    scale, label = _response(side)
    tables = [(before, svg.MODEL, "as trained")]
    if after is not None:
        tables = [(before, svg.STATIC, "as trained"), (after, svg.MODEL, "after calibration")]
    top = 1.04 * scale * max(float(np.nanmax(np.r_[table.predicted, table.high])) for table, _, _ in tables)
    line: dict[str, Any] = {"marker": "o", "markersize": 4, "linewidth": 1.2}
    with svg.figure(*HALF) as (drawn, axes):
        axes.plot([0, top], [0, top], color=svg.MUTED, linewidth=1.0, linestyle=svg.DOTTED, label="perfect")
        for table, color, name in tables:
            x = scale * table.predicted
            axes.vlines(x, scale * table.low, scale * table.high, color=color, linewidth=1.2, alpha=0.6)
            axes.plot(x, scale * table.observed, color=color, label=name, **line)
        axes.set(xlim=(0, top), ylim=(0, top), xlabel=f"Predicted, {label}", ylabel=f"Observed, {label}")
        axes.grid(axis="x", color=svg.GRID)
        svg.ticks(axes, "x", number)
        svg.ticks(axes, "y", number)
        svg.legend_above(axes)
        return svg.to_svg(drawn, f"calibration-{side}", f"Observed against predicted response of {side}s")


def _response(side: str) -> tuple[float, str]:
    """Factor and unit in which a side's response is shown."""
    return (100.0, "%") if side == "customer" else (1.0, "ratio to before")


def _bars(axes: Axes, x: Array, middle: Array, low: Array, high: Array, label: str) -> None:
    reach = np.maximum([middle - low, high - middle], 0)
    style: dict[str, Any] = {"markersize": 4, "elinewidth": 1.2, "capsize": 2.5}
    axes.errorbar(x, middle, yerr=reach, fmt="o", color=svg.OBSERVED, label=label, **style)


def _amounts(axes: Axes, x: Array, names: Sequence[str] = (), *, apart: float = 0.07) -> None:
    """Ticks at the amounts themselves, from the highest down, but none so near another that they overlap."""
    shown: list[float] = []
    for value in x[::-1]:
        if not shown or shown[-1] - value >= apart * (x[-1] - x[0]):
            shown.append(float(value))
    named = dict(zip(x.tolist(), names, strict=True)) if names else {value: number(value) for value in shown}
    axes.set_xticks(shown, [clipped(named[value], 18) for value in shown])


def _mark(axes: Axes, changes: ChangePoints, x: Array, amounts: NDArray[np.int64]) -> None:
    for at in changes.at:
        place = float(np.interp(at, amounts, x))
        axes.axvline(place, color=svg.MUTED, linewidth=1.0, linestyle=svg.DOTTED, zorder=0)
        where: dict[str, Any] = {"xycoords": axes.get_xaxis_transform(), "textcoords": "offset points"}
        axes.annotate(
            number(place), (place, 1), xytext=(3, -9), color=svg.MUTED, fontsize=8.5, fontweight="bold", **where
        )
