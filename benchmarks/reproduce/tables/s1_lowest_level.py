"""Why DIPN does not always beat a plain network: what the lowest level's rows allow, and what more of them change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.reproduce.summary import Summary
from benchmarks.reproduce.table import Rows, Table
from benchmarks.reproduce.tables.s1_promotion import FIRST, TRUTH, fit_all, judge
from shadowprice.datasets.promotion import PromotionOptions, draw

MODELS = ("DNN", "DIPN", "DIPN, bias not frozen")
FIVE = (0, 25, 50, 75, 100)
REGIMES: Mapping[str, Mapping[str, Any]] = {
    "as in table 3": {"rows": 20_000},
    "5 levels": {"rows": 20_000, "levels": FIVE},
    "four times the rows": {"rows": 80_000},
}
"""Column group → options of the promotion. Of 21 levels the lowest has 1 row in 21 to learn the bias from, of 5 levels
1 in 5, and of four times the rows four times as many."""
LOST, LOWEST = "lost, %", "error at the lowest level"


def run(seed: int, quick: bool) -> Rows:
    """Every regime's models: what their allocation loses of the true curves' response, and how wrong they start."""
    found: dict[str, dict[str, float]] = {}
    for regime, options in REGIMES.items():
        given = {**options, "rows": int(options["rows"]) // 5} if quick else options
        drawn = draw(PromotionOptions(features=(3, 5, 7), **given), FIRST + seed)
        judged, truth, curves = fit_all(drawn, MODELS, seed, quick)
        response = {row: judge(each, judged, truth, drawn.levels)["future response"] for row, each in curves.items()}
        for row in MODELS:
            own = found.setdefault(row, {})
            own[f"{regime}: {LOST}"] = 100 * (1 - response[row] / response[TRUTH])
            own[f"{regime}: {LOWEST}"] = float(np.abs(curves[row][0] - truth[0]).mean())
    return found


def reading(found: Summary) -> str:
    """DIPN against the plain network in each regime, beside the error of its bias net."""
    parts = []
    for regime in REGIMES:
        lost = {row: found.cell(row, f"{regime}: {LOST}").value for row in MODELS}
        wrong = {row: found.cell(row, f"{regime}: {LOWEST}").value for row in MODELS}
        verdict = {row: found.verdict(f"{regime}: {LOST}", row, "DNN") for row in MODELS[1:]}
        parts.append(
            f"{regime[0].upper()}{regime[1:]}: off by {wrong['DIPN']:.3f} with the frozen bias net, "
            f"{wrong['DIPN, bias not frozen']:.3f} when it is not frozen, {wrong['DNN']:.3f} the DNN; of the best "
            f"response DIPN loses {lost['DIPN']:.1f} % ({verdict['DIPN']}), not frozen "
            f"{lost['DIPN, bias not frozen']:.1f} % ({verdict['DIPN, bias not frozen']}), the DNN {lost['DNN']:.1f} %"
        )
    return (
        "The bias net sees the rows of the lowest level and no others, and is then frozen; the DNN learns its start "
        f"from all rows. {'. '.join(parts)}. Verdicts are against the DNN, paired by seed."
    )


COLUMNS = [f"{regime}: {what}" for regime in REGIMES for what in (LOST, LOWEST)]
TABLE = Table(
    title="What holds DIPN back: rows of the lowest level",
    source="no table of S1; looks for the reason of its table 3 as measured here (s1_table3)",
    data="simulated: promotions of features with (3, 5, 7) values as in s1_table3, with its 21 levels and 20,000 "
    "accounts, with 5 levels, and with four times the accounts. Lost: of the true response that the true curves would "
    "bring at the same budget of 11 per account; error: mean absolute, of the curve at incentive 0",
    run=run,
    reading=reading,
    compare=[(column, row, "DNN") for column in COLUMNS for row in MODELS[1:]],
    fewer_is_better=COLUMNS,
)
