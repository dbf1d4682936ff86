"""Experiment of S1 on its synthetic promotions: fit, judge, and spend a budget by each model's curves."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from research.models import make
from research.table import Primary, Rows, Summary, Table
from research.tables.s1.posterior import posterior_mean
from shadowprice.allocation import Problem, Resource, solve
from shadowprice.datasets.promotion import Promotion, PromotionOptions, draw
from shadowprice.evaluation import metrics
from shadowprice.evaluation.policy.attainable import Attainable
from shadowprice.policy import Choices
from shadowprice.responses.training import TrainingConfig

BUDGET = 11.0
"""Mean cost per account, as in S1: an incentive costs its value whether or not the account responds."""
RADIUS = 10.0
"""Radius of the MLSS in units of incentive; S1 does not give it."""
TRUTH, ATTAINABLE, FROZEN = "true curves", "best attainable", "best attainable, start frozen"
FLAT, LEAST = "best flat mixture", "lowest level for all"

NETWORK = TrainingConfig(learning_rate=1e-2, decay=0.97, epochs=60, patience=15, weight_decay=1e-4, batch_rows=1024)
LATTICE = TrainingConfig(learning_rate=3e-2, decay=0.97, epochs=60, patience=15, weight_decay=1e-4, batch_rows=512)

Model = tuple[str, Mapping[str, Any]]
"""Name of a registered model and its options."""
MODELS: dict[str, Model] = {
    "DNN": ("dnn_level", {"training": NETWORK}),
    "Lattice": ("lattice", {"training": LATTICE}),
    "LR, isotonic": ("isotonic_lr", {}),
    "DIPN": ("dipn", {"training": NETWORK, "smooth_to": 3e-2}),
    "DIPN, additive": ("dipn", {"training": NETWORK, "smooth_to": 3e-2, "hidden": 0}),
    "DIPN, bias not frozen": ("dipn", {"training": NETWORK, "smooth_to": 3e-2, "freeze_bias": False}),
}
"""Row → model. S1 prints no sizes; the networks share one training configuration.
The end of the smoothness was chosen on other promotions, with steeper curves."""

LOWEST = "error at the lowest level"
FEWER = ("logloss", "RPR", "EPR", "error of the curve", LOWEST, "future cost error")
GAINS = ("DNN", "DIPN", "DIPN, bias not frozen", ATTAINABLE)
"""Rows whose share of the attainable gain the reading gives."""
COMPARE = [
    ("future response", "DIPN", "Lattice"),
    ("future response", "DIPN", "LR, isotonic"),
    ("future response", "DIPN", "DIPN, additive"),
    ("future response", "DIPN, bias not frozen", "DNN"),
    ("future response", "DIPN, bias not frozen", "DIPN"),
    ("logloss", "DIPN", "DNN"),
    (LOWEST, "DIPN", "DNN"),
    (LOWEST, FROZEN, ATTAINABLE),
]
DATA = (
    "promotions by equations 18–20 of S1 (20,000 accounts: 5,000 train, 5,000 stop the training, 10,000 are judged; 21 "
    "levels from 0 to 100, assigned at random); simulated. Best attainable: the mean of the true curves given the rows "
    "and the law of the generator; start frozen: the lowest level learned from its own rows alone"
)


def run(features: Sequence[int], seed: int, quick: bool) -> Rows:
    drawn = draw(PromotionOptions(features=features, rows=6000 if quick else 20_000), seed)
    judged, truth, curves = fit_all(drawn, MODELS, seed, quick)
    learned, levels = drawn.frame.iloc[: len(drawn.frame) // 2], drawn.levels
    free = posterior_mean(learned, judged, levels, seed=seed)
    start = posterior_mean(learned[learned["level"] == 0], judged, levels, seed=seed)[:1]
    curves |= {ATTAINABLE: free, FROZEN: np.concatenate([start, np.maximum(free[1:], start)]), TRUTH: truth}
    return {
        **{row: judge(curve, judged, truth, levels) for row, curve in curves.items()},
        FLAT: {"future response": flat_mixture(truth, levels)},
        LEAST: {"future response": float(truth[0].mean())},
    }


def fit_all(
    drawn: Promotion, models: Mapping[str, Model], seed: int, quick: bool, *, weighted: bool = False
) -> tuple[pd.DataFrame, NDArray[np.float64], dict[str, NDArray[Any]]]:
    """Fit models to one half of a promotion, half of which stops the training.

    ``weighted`` weights the rows by the inverse of their propensities.

    Returns the rows of the other half, their true curves (J, N), and the fitted curves (J, N) by row of the table.
    """
    half = len(drawn.frame) // 2
    learned = drawn.frame.iloc[:half].drop(columns=[] if weighted else "propensity").reset_index(drop=True)
    judged, truth = drawn.frame.iloc[half:].reset_index(drop=True), drawn.response[:, half:]
    asked = judged.drop(columns=["level", "response", "propensity"])
    curves: dict[str, NDArray[Any]] = {}
    for row, (name, options) in models.items():
        own: dict[str, Any] = dict(options)
        if "training" in own:
            own["held_out"] = 0.5
            if quick:
                own["training"] = replace(own["training"], epochs=20)
        curves[row] = make(name, levels=drawn.levels, seed=seed, **own).fit(learned).curve(asked).response
    return judged, truth, curves


def judge(curves: NDArray[Any], rows: Any, truth: NDArray[np.float64], levels: Sequence[int]) -> dict[str, float]:
    """Return the columns of S1's tables for curves (J, N) of rows whose true curves are known."""
    level, y = rows["level"].to_numpy(), rows["response"].to_numpy()
    p = np.clip(curves[level, np.arange(level.size)].astype(float), 1e-6, 1 - 1e-6)
    response, cost = bought(curves, truth, levels)
    return {
        "logloss": metrics.logloss(y, p),
        "AUC": metrics.auc(y, p),
        "RPR": metrics.rpr(curves),
        "EPR": metrics.epr(curves),
        "MLSS": metrics.mlss(curves, levels=levels, radius=RADIUS),
        "error of the curve": float(np.abs(curves - truth).mean()),
        LOWEST: float(np.abs(curves[0] - truth[0]).mean()),
        "future response": response,
        "future cost": cost,
        "future cost error": max(0.0, round(cost - BUDGET, 9)),
    }


def bought(curves: NDArray[Any], truth: NDArray[np.float64], levels: Sequence[int]) -> tuple[float, float]:
    """Return the true mean response and the mean cost of the policy that spends the budget by ``curves``."""
    chosen, share = spend(curves, levels)
    # Both ways a tie can go, each with its probability: the policy's expectation, not one draw of it.
    twice, weight = np.concatenate([truth, truth], axis=1), np.repeat([1 - share, share], truth.shape[1])
    return (
        metrics.future_response(twice, chosen=chosen, weight=weight),
        metrics.future_cost(twice, chosen=chosen, levels=levels, weight=weight),
    )


def flat_mixture(truth: NDArray[np.float64], levels: Sequence[int]) -> float:
    """Return the true mean response of the best mixture of levels that is the same for all accounts."""
    # Accounts with the mean curve are alike, so that the policy gives all of them one mixture.
    same = np.broadcast_to(truth.mean(axis=1)[:, None], truth.shape)
    return bought(same, truth, levels)[0]


def spend(curves: NDArray[Any], levels: Sequence[int]) -> tuple[NDArray[np.int32], float]:
    """Return levels (2·N,), with ties at the cheaper level and then at the dearer one, and the tie share."""
    value = np.asarray(curves, dtype=np.float32)
    cost = np.asarray(levels, dtype=np.float64)
    solved = solve(Problem(value, [Resource.per_account("budget", cost, BUDGET)]))
    wide = np.repeat(cost[:, None], value.shape[1], axis=1)
    ids = np.arange(value.shape[1])
    cheap, dear = (Choices(value, wide).decide(solved.prices, side, ids).level for side in (0.0, 1.0))
    return np.concatenate([cheap, dear]), solved.tie_share


def reading(summary: Summary) -> str:
    response = {row: summary.cell(row, "future response").value for row in (LEAST, FLAT, TRUTH, *GAINS)}
    gain = Attainable(lowest=response[LEAST], flat=response[FLAT], best=response[TRUTH])
    shares = ", ".join(f"{row} {gain.share(response[row]):.0%}" for row in GAINS)
    text = f"Of the attainable gain, true curves over the best flat mixture, the methods reach: {shares}."
    if summary.verdict(LOWEST, "DIPN", "DNN") == "worse":
        text += " The frozen bias net learns the lowest level from one row in 21."
    return text


def table(
    number: int, features: tuple[int, ...], data: str, effect: float, spread: float, **published: tuple[float, ...]
) -> Table:
    """Return one of the paper's tables, whose figures of each method are ``published`` in the order of its columns."""
    columns = ("logloss", "AUC", "RPR", "EPR", "MLSS", "future response", "future cost")
    return Table(
        title=f"Response models on a synthetic promotion, features of {features} values",
        source=f"table {number} of S1",
        data=data,
        run=partial(run, features),
        reading=reading,
        published={name: dict(zip(columns, figures, strict=True)) for name, figures in published.items()},
        primary=Primary("future response", "DIPN", "DNN", effect=effect, spread=spread),
        compare=COMPARE,
        fewer_is_better=FEWER,
        also=("logloss", "RPR", FROZEN),
    )
