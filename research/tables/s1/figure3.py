"""Figure 3 of S1: response curves learned from a biased assignment, with and without the bias net and IPS."""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from numpy.typing import NDArray

from research.table import Primary, Rows, Summary, Table
from research.tables.s1.promotion import LOWEST, NETWORK, Model, bought, fit_all
from shadowprice.datasets.promotion import LEVELS, PromotionOptions, draw

BIAS = 1.0
"""Strength of the bias: a standard deviation of activity divides the odds of the highest against the lowest level by
e² = 7.4."""
ASSIGNMENTS = {"random": (0.0, False), "biased": (BIAS, False), "biased, IPS": (BIAS, True)}
"""Start of a row's name → bias of the assignment, and whether rows are weighted by the inverse propensity."""

ONE_PHASE = {"freeze_bias": False, "bias_epochs": 0}
OPTIONS = {"training": NETWORK, "smooth_to": 3e-2}
MODELS: dict[str, Model] = {
    "bias net": ("dipn", OPTIONS),
    "one phase": ("dipn", {**OPTIONS, **ONE_PHASE}),
    "additive, bias net": ("dipn", {**OPTIONS, "hidden": 0}),
    "additive, one phase": ("dipn", {**OPTIONS, **ONE_PHASE, "hidden": 0}),
}
"""End of a row's name → model."""
ERROR, RISE, DISTANCE = "error of the curve", "bias of the rise", "distance from the random fit"
COLORS = {"random": "#66a182", "biased": "#d1495b", "biased, IPS": "#1b6ca8"}


@dataclass(frozen=True, eq=False)
class Fits:
    """Fitted curves (J, N) of the judged accounts by row, their true curves, and the biased rows' means by level."""

    curves: Mapping[str, NDArray[np.float64]]
    truth: NDArray[np.float64]
    means: NDArray[np.float64]


@cache
def fits(seed: int, quick: bool) -> Fits:
    """Fit every model to every assignment; cached because the drawing shows the same fits."""
    curves: dict[str, NDArray[np.float64]] = {}
    for assignment, (bias, weighted) in ASSIGNMENTS.items():
        # Curves and accounts depend on the seed alone, levels and responses on the bias too.
        drawn = draw(PromotionOptions(features=(3, 5, 7), rows=6000 if quick else 20_000, bias=bias), seed)
        _, truth, found = fit_all(drawn, MODELS, seed, quick, weighted=weighted)
        curves |= {f"{assignment}: {model}": curve for model, curve in found.items()}
    return Fits(curves, truth, drawn.frame.groupby("level")["response"].mean().to_numpy())


def run(seed: int, quick: bool) -> Rows:
    found = fits(seed, quick)
    rise = found.truth[-1] - found.truth[0]
    return {
        row: {
            ERROR: float(np.abs(curve - found.truth).mean()),
            LOWEST: float(np.abs(curve[0] - found.truth[0]).mean()),
            RISE: float((curve[-1] - curve[0] - rise).mean()),
            DISTANCE: float(np.abs(curve - found.curves[f"random: {row.split(': ')[1]}"]).mean()),
            "future response": bought(curve, found.truth, LEVELS)[0],
        }
        for row, curve in found.curves.items()
    }


def figures(seed: int, quick: bool) -> dict[str, str]:
    found = fits(seed, quick)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "shadowprice", "font.size": 9}):
        drawn = Figure(figsize=(8.0, 3.8), layout="constrained")
        for axes, form, title in zip(
            drawn.subplots(1, 2, sharey=True), ("", "additive, "), ("with a hidden layer", "additive"), strict=True
        ):
            axes.plot(LEVELS, found.means, "o", markersize=3, color="#9a9a9a", label="biased: mean of the rows")
            axes.plot(LEVELS, found.truth.mean(axis=1), color="black", linewidth=2, label="true")
            for assignment, color in COLORS.items():
                for model, style in (("bias net", "-"), ("one phase", ":")):
                    row = f"{assignment}: {form}{model}"
                    axes.plot(LEVELS, found.curves[row].mean(axis=1), style, color=color, label=row)
            axes.set_title(title, fontsize=9)
            axes.set_xlabel("incentive")
            axes.legend(fontsize=6)
        drawn.suptitle("mean response of the judged accounts (simulated)", fontsize=10)
        text = io.StringIO()
        drawn.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return {"curves": text.getvalue()}


def reading(found: Summary) -> str:
    rise = {
        row: found.cell(row, RISE).value for row in ("random: bias net", "biased: bias net", "biased, IPS: bias net")
    }
    return (
        "The mean rise of the fitted curves from the lowest to the highest level differs from the true one by "
        f"{', '.join(f'{value:+.3f} ({row})' for row, value in rise.items())}. "
        f"Without IPS, {found.finding(ERROR, 'biased: bias net', 'biased: one phase')}; "
        f"with it, {found.finding(ERROR, 'biased, IPS: bias net', 'biased, IPS: one phase')}."
    )


TABLE = Table(
    title="Response curves from a biased assignment, with and without the bias net and IPS",
    source="figure 3 of S1",
    data=f"promotions of [s1_table3](s1_table3.md), where less active accounts get higher levels (bias {BIAS:g}) with "
    "known propensities, or random levels. IPS: rows weighted by the stabilized inverse of the propensity. One phase: "
    "no bias learning before uplift learning",
    run=run,
    reading=reading,
    # On the development seeds the biased assignment adds about 0.07 to the error.
    primary=Primary(ERROR, "biased, IPS: bias net", "biased: bias net", effect=0.04, spread=0.034),
    compare=[
        (ERROR, "biased: bias net", "biased: one phase"),
        (ERROR, "biased, IPS: bias net", "biased, IPS: one phase"),
        (ERROR, "biased, IPS: one phase", "biased: one phase"),
        (ERROR, "biased, IPS: bias net", "random: bias net"),
        (ERROR, "biased, IPS: additive, bias net", "biased: additive, bias net"),
        (ERROR, "biased: additive, bias net", "biased: additive, one phase"),
    ],
    fewer_is_better=(ERROR, LOWEST, DISTANCE),
    figures=figures,
)
