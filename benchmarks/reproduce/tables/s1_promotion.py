"""S1's experiment on its synthetic promotions: fit, judge, and spend a budget by each model's curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.reproduce.summary import Summary
from benchmarks.reproduce.table import Rows
from shadowprice.allocation import Problem, Resource, solve
from shadowprice.datasets.promotion import Promotion, PromotionOptions, draw
from shadowprice.decision import decide
from shadowprice.evaluation import metrics
from shadowprice.responses import make
from shadowprice.responses.training import TrainingConfig

BUDGET = 11.0
"""Per account, as in S1, where an incentive costs its value whether or not the account responds."""
RADIUS = 10.0
"""Of the MLSS, in units of incentive; S1 does not give it."""
FIRST = 10_000
"""Promotion of seed 0: others than those that options were chosen on."""
TRUTH = "true curves"

NETWORK = TrainingConfig(learning_rate=1e-2, decay=0.97, epochs=60, patience=15, weight_decay=1e-4, batch_rows=1024)
LATTICE = TrainingConfig(learning_rate=3e-2, decay=0.97, epochs=60, patience=15, weight_decay=1e-4, batch_rows=512)

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "DNN": ("dnn_level", {"training": NETWORK}),
    "Lattice": ("lattice", {"training": LATTICE}),
    "LR, isotonic": ("isotonic_lr", {}),
    "DIPN": ("dipn", {"training": NETWORK, "smooth_to": 3e-2}),
    "DIPN, additive": ("dipn", {"training": NETWORK, "smooth_to": 3e-2, "hidden": 0}),
    "DIPN, bias not frozen": ("dipn", {"training": NETWORK, "smooth_to": 3e-2, "freeze_bias": False}),
}
"""Row → registered model and options. S1 prints no sizes; the networks share one training configuration. The end of
the smoothness was chosen on other promotions; at 21 levels anything from 0.01 to 5 did much the same."""

FEWER = ("logloss", "RPR", "EPR", "error of the curve", "future cost error")
COMPARE = [
    ("future response", row, other)
    for row in ("DIPN", "DIPN, bias not frozen")
    for other in ("DNN", "Lattice", "LR, isotonic")
]
COMPARE += [
    ("future response", "DIPN", "DIPN, additive"),
    ("logloss", "DIPN, bias not frozen", "DNN"),
]
DATA = (
    "simulated: promotions with known curves after S1, section 5 (20,000 accounts: 5,000 train, 5,000 stop, 10,000 "
    "are judged; 21 levels from 0 to 100; the ends of the curves are drawn our own way, so heights do not compare)"
)


def run(features: Sequence[int], seed: int, quick: bool) -> Rows:
    """Every model's figures on the promotion of one seed."""
    drawn = draw(PromotionOptions(features=features, rows=6000 if quick else 20_000), FIRST + seed)
    judged, truth, curves = fit_all(drawn, list(MODELS), seed, quick)
    return {row: judge(each, judged, truth, drawn.levels) for row, each in curves.items()}


def fit_all(
    drawn: Promotion, rows: Sequence[str], seed: int, quick: bool
) -> tuple[pd.DataFrame, NDArray[np.float64], dict[str, NDArray[Any]]]:
    """Models fitted to one half of a promotion (half of which stops them), and the curves of the other half.

    Returns the judged rows, their true curves (J, N), and the curves (J, N) by row of the table, the true ones last.
    """
    half = len(drawn.frame) // 2
    learned = drawn.frame.iloc[:half].drop(columns="propensity").reset_index(drop=True)
    judged, truth = drawn.frame.iloc[half:].reset_index(drop=True), drawn.response[:, half:]
    asked = judged.drop(columns=["level", "response", "propensity"])
    curves: dict[str, NDArray[Any]] = {}
    for row in rows:
        name, options = MODELS[row]
        own: dict[str, Any] = dict(options)
        if "training" in own:
            own["held_out"] = 0.5
            if quick:
                own["training"] = replace(own["training"], epochs=20)
        curves[row] = make(name, levels=drawn.levels, seed=seed, **own).fit(learned).curve(asked).response
    return judged, truth, {**curves, TRUTH: truth}


def judge(curves: NDArray[Any], rows: Any, truth: NDArray[np.float64], levels: Sequence[int]) -> dict[str, float]:
    """The columns of S1's tables for curves (J, N) of rows whose true curves are known."""
    level, y = rows["level"].to_numpy(), rows["response"].to_numpy()
    p = np.clip(curves[level, np.arange(level.size)].astype(float), 1e-6, 1 - 1e-6)
    chosen, share = spend(curves, levels)
    # Both ways a tie can go, each with its probability: the policy's expectation, not one draw of it.
    twice, weight = np.concatenate([truth, truth], axis=1), np.repeat([1 - share, share], level.size)
    cost = metrics.future_cost(twice, chosen=chosen, levels=levels, weight=weight)
    return {
        "logloss": metrics.logloss(y, p),
        "AUC": metrics.auc(y, p),
        "RPR": metrics.rpr(curves),
        "EPR": metrics.epr(curves),
        "MLSS": metrics.mlss(curves, levels=levels, radius=RADIUS),
        "error of the curve": float(np.abs(curves - truth).mean()),
        "future response": metrics.future_response(twice, chosen=chosen, weight=weight),
        "future cost": cost,
        "future cost error": max(0.0, round(cost - BUDGET, 9)),
    }


def spend(curves: NDArray[Any], levels: Sequence[int]) -> tuple[NDArray[np.int32], float]:
    """Levels (2·N,) when every tie goes to the cheaper and then when it goes to the dearer, and the tie share."""
    value = np.asarray(curves, dtype=np.float32)
    cost = np.asarray(levels, dtype=np.float64)
    solved = solve(Problem(value, [Resource.per_account("budget", cost, BUDGET)]))
    wide = np.repeat(cost[:, None], value.shape[1], axis=1)
    ids = np.arange(value.shape[1])
    cheap, dear = (decide(value, wide, solved.prices, side, ids).level for side in (0.0, 1.0))
    return np.concatenate([cheap, dear]), solved.tie_share


def reading(summary: Summary) -> str:
    """What the figures say, in an order that does not depend on whom they please."""
    best = summary.cell(TRUTH, "future response").value
    parts = [summary.sentence("future response", row, "DNN") for row in ("DIPN", "DIPN, bias not frozen")]
    parts += [summary.sentence("future response", "DIPN", "Lattice")]
    rpr = {row: summary.cell(row, "RPR").value for row in ("DNN", "DIPN")}
    lost = {
        row: 1 - summary.cell(row, "future response").value / best for row in ("DNN", "DIPN", "DIPN, bias not frozen")
    }
    text = "; ".join(parts) + (
        ". Every model spends the budget exactly, so responses are at equal cost. Reversed pairs: DNN "
        f"{rpr['DNN']:.2f}, DIPN {rpr['DIPN']:.2g}. Of what the true curves would bring the DNN loses "
        f"{lost['DNN']:.1%}, DIPN {lost['DIPN']:.1%}, and {lost['DIPN, bias not frozen']:.1%} when its bias net is not "
        "frozen"
    )
    freeze = summary.verdict("logloss", "DIPN", "DIPN, bias not frozen")
    if freeze == "worse":
        text += (
            ". What holds the paper's form back is the frozen bias net: it learns from the one row in 21 that got the "
            "lowest level, and what it gets wrong no rising curve can correct; table s1_lowest_level measures it with "
            "more such rows"
        )
    return text + "."
