"""S2's experiments on generated deliveries whose probabilities and amounts are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.reproduce.table import Rows
from shadowprice.datasets.funds import UNIT, FundOptions, Funds, draw
from shadowprice.evaluation import metrics
from shadowprice.responses import make
from shadowprice.responses.funds.model import FundModel
from shadowprice.responses.training import TrainingConfig

FIRST = 20_000
"""Delivery of seed 0: others than those that sizes were chosen on."""
JUDGED = 0.35
"""Share of users whose deliveries are kept for judging."""
TRUTH = "truth"
TRAINING = TrainingConfig(learning_rate=5e-3, decay=0.95, epochs=25, patience=4, weight_decay=1e-5, batch_rows=1024)

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "DNN-C": ("dnn_c", {}),
    "DNN-V": ("dnn_v", {}),
    "Shared-Bottom": ("shared_bottom", {}),
    "MMoE": ("mmoe", {}),
    "ESMM": ("esmm", {}),
    "MTL-ZILN": ("mtl_ziln", {"graph": True}),
    "MTL-MSE": ("mtl_mse", {"graph": True}),
    "ESDPM-NCG": ("esdpm_ncg", {}),
    "ESDPM": ("esdpm", {"graph": True}),
    "ESDPM, mass of 1": ("esdpm", {"graph": True, "loss": "esj_mass"}),
}
"""Row → registered model and options. All read the same features and behaviour; those with ESDPM's network also the
graph, so that they differ from it in the loss alone."""


def options(quick: bool, strength: float = 0.9) -> FundOptions:
    """Size of a drawn delivery."""
    return FundOptions(users=400 if quick else 1200, merchants=120, strength=strength)


def fit(name: str, drawn: Funds, frame: pd.DataFrame, seed: int, quick: bool, **more: Any) -> FundModel:
    """A registered model on labelled deliveries; ``graph=True`` gives it the consumption graph."""
    given = {"behaviours": drawn.behaviours(), "training": TRAINING, **more}
    if given.pop("graph", False):
        given["graph"] = [drawn.graph()]
    if quick:
        given["training"] = replace(TRAINING, epochs=3)
    model = make(name, levels=range(len(drawn.demand)), seed=seed, **given)
    assert isinstance(model, FundModel)
    return model.fit(frame)


class Judged:
    """The deliveries of users that no model has learnt from."""

    def __init__(self, drawn: Funds, seed: int) -> None:
        chosen = np.random.default_rng([seed, 7]).random(len(drawn.users)) < JUDGED
        frame = drawn.frame()
        held = frame["account_id"].isin(drawn.users["account_id"][chosen])
        self.drawn = drawn
        self.learnt = frame[~held].reset_index(drop=True)
        self.users = drawn.users[chosen].drop(columns="risk_tolerance").reset_index(drop=True)
        rows = frame[held]
        self.level = rows["level"].to_numpy()
        self.place = np.searchsorted(self.users["account_id"], rows["account_id"])
        self.y = rows["response"].to_numpy()
        self.amount = rows["amount"].to_numpy() / UNIT
        self.allowed = drawn.allowed[:, chosen]
        self.value = drawn.value[:, chosen] / UNIT
        self.convert = drawn.convert[:, chosen].astype(float)

    def figures(self, probability: NDArray[Any] | None, value: NDArray[Any], amounts: bool) -> dict[str, float]:
        """The columns of S2's offline table for probabilities and values (K, N) of the judged users, in units.

        Where a model has no probability, or learns no amount, its columns of that are left out.
        """
        found: dict[str, float] = {}
        if probability is not None:
            p = np.clip(probability[self.level, self.place].astype(float), 1e-6, 1 - 1e-6)
            found |= {"AUC": metrics.auc(self.y, p), "logloss": metrics.logloss(self.y, p)}
        if amounts:
            said = value[self.level, self.place].astype(float)
            v, log = np.log1p(self.amount), np.log1p(said)
            found |= {"MSE": metrics.mse(v, log), "MAE": metrics.mae(v, log)}
            found |= {
                "RMSE, currency": float(np.sqrt(metrics.mse(self.amount, said))),
                "Gini": metrics.normalised_gini(self.amount, said),
            }
        chosen = np.where(self.allowed, value, -np.inf).argmax(axis=0)
        best = np.where(self.allowed, self.value, -np.inf).max(axis=0)
        given, taken = self.level, chosen[self.place]
        columns = np.arange(chosen.size)
        return found | {
            "THC": metrics.thc(self.y, given=given, chosen=taken),
            "THA": metrics.tha(self.amount, given=given, chosen=taken),
            "true value of the choice": metrics.objective_ratio(self.value[chosen, columns], best),
        }

    def of(self, model: FundModel) -> dict[str, float]:
        """The figures of a fitted model."""
        probability = model.curve(self.users).response if model.converts else None
        return self.figures(probability, model.value(self.users) / UNIT, model.loss.outputs > 0)


def offline(seed: int, quick: bool) -> Rows:
    """Every model on one drawn delivery, and the graph's worth where no wealth flows along it."""
    judged = Judged(draw(options(quick), FIRST + seed), seed)
    found: dict[str, dict[str, float]] = {}
    for row, (name, more) in MODELS.items():
        found[row] = judged.of(fit(name, judged.drawn, judged.learnt, seed, quick, **more))
    found[TRUTH] = judged.figures(judged.convert, judged.value, True)
    apart = Judged(draw(options(quick, strength=0.0), FIRST + seed), seed)
    for row in ("ESDPM-NCG", "ESDPM"):
        name, more = MODELS[row]
        found[f"{row}, graph without wealth"] = apart.of(fit(name, apart.drawn, apart.learnt, seed, quick, **more))
    return found
