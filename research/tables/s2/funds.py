"""S2's experiments on generated deliveries whose probabilities and amounts are known."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from research.table import Rows
from shadowprice.datasets.funds import UNIT, FundOptions, Funds, deliver_again, draw
from shadowprice.evaluation import metrics
from shadowprice.responses import make
from shadowprice.responses.funds.model import FundModel
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.training import TrainingConfig

USERS = 2_000
"""Number of users; half as many make the difference of ESDPM and MTL-ZILN four times as variable."""
QUICK_USERS = 300
FIRST = 20_000
"""Delivery of seed 0: others than those that sizes were chosen on."""
JUDGED = 0.35
"""Share of users whose deliveries are kept for judging."""
LATER, QUICK_LATER = 256, 8
"""Deliveries of a judged user after those learnt from, so that the noise of outcomes is small."""
TRUTH = "truth"
OPEN: dict[str, Any] = {"new_offers": True}
"""Option that hides the fund on half of the training rows."""
NEW = ", open to new funds"
"""Suffix of a row with that option."""
MASS = "ESDPM, mass of 1"
OPEN_NOTE = f'A network "{NEW[2:]}" hides the fund on half of its training rows'
APART = ", graph without wealth"
"""Suffix of rows on other deliveries."""
OVER, CHOICE = "MSE over the truth's", "true value of the choice"
MONEY, OVER_MONEY = "RMSE, currency", "RMSE over the truth's, currency"
FEWER = ("logloss", "MSE", "MAE", OVER, "MSE, log of ETV", MONEY, OVER_MONEY)
"""Columns of which less is better."""
TRAINING = TrainingConfig(learning_rate=5e-3, decay=0.95, epochs=25, patience=4, weight_decay=1.0, batch_rows=1024)
"""The decay was chosen on two deliveries that no table has."""
OFFLINE = replace(TRAINING, weight_decay=3.0)
"""Settings of s2_table1; the decay was chosen of 0.3, 1, 3 and 10 on the deliveries of seeds 0 and 1."""

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
    MASS: ("esdpm", {"graph": True, "loss": "esj_mass"}),
}
"""Row → registered model and options. All read the same features and behaviour; those with ESDPM's network also the
graph, so that they differ from it in the loss alone."""


WITHOUT_WEALTH = ("ESDPM-NCG", "ESDPM")
"""Rows measured again where no wealth flows along the graph."""


ETV_NOTE = (
    "ETV has p·(1 − N(0; mu, sigma)) in place of the printed p "
    "([record 24](../decisions/0024-fund-model-predictions.md))"
)
"""Sentence that every page showing the ETV of `esj` has."""


def options(quick: bool, users: int = USERS, **more: Any) -> FundOptions:
    users = QUICK_USERS if quick else users
    return FundOptions(users=users, merchants=users // 10, **more)


def fit(name: str, drawn: Funds, frame: pd.DataFrame, seed: int, quick: bool, **more: Any) -> FundModel:
    """A registered model on labeled deliveries; ``graph=True`` gives it the consumption graph."""
    given = {"training": TRAINING, **more}
    snapshots = [drawn.graph()] if given.pop("graph", False) else []
    inputs = Inputs(snapshots=snapshots, behaviours=drawn.behaviours(), offers=drawn.offers)
    if quick:
        given["training"] = replace(TRAINING, epochs=3)
    model = make(name, levels=range(len(drawn.demand)), seed=seed, inputs=inputs, **given)
    assert isinstance(model, FundModel)
    return model.fit(frame)


class Judged:
    """The deliveries of users that no model has learnt from: those drawn, or ``later`` more to each of them."""

    def __init__(self, drawn: Funds, seed: int, share: float = JUDGED, later: int = 0) -> None:
        chosen = np.random.default_rng([seed, 7]).random(len(drawn.users)) < share
        frame = drawn.frame()
        held = frame["account_id"].isin(drawn.users["account_id"][chosen])
        self.drawn = drawn
        self.learnt = frame[~held].reset_index(drop=True)
        self.users = drawn.requests()[chosen].reset_index(drop=True)
        rows = frame[held]
        if later:
            rows = deliver_again(drawn, later, seed)
            rows = rows[rows["account_id"].isin(drawn.users["account_id"][chosen])]
        self.level = rows["level"].to_numpy()
        self.place = np.searchsorted(self.users["account_id"], rows["account_id"])
        self.y = rows["response"].to_numpy()
        self.amount = rows["amount"].to_numpy() / UNIT
        self.allowed = drawn.allowed[:, chosen]
        self.value = drawn.value[:, chosen] / UNIT
        self.log_value = drawn.log_value[:, chosen]
        self.convert = drawn.convert[:, chosen].astype(float)

    def figures(
        self, probability: NDArray[Any] | None, value: NDArray[Any], log_value: NDArray[Any]
    ) -> dict[str, float]:
        """The columns of S2's offline table for predictions (K, N) of the judged users: p, E[PA], E[log(1 + PA)].

        MSE and MAE are of the expected log(1 + amount), which alone minimizes the square. ``MSE over the truth's`` is
        the mean squared error against the truth, over all pairs: MSE without the noise of outcomes. In
        currency the same is asked of the expected amount, in units. Without probabilities their columns are left out.
        """
        found: dict[str, float] = {}
        at = self.level, self.place
        if probability is not None:
            p = np.clip(probability[at].astype(float), 1e-6, 1 - 1e-6)
            found |= {"AUC": metrics.auc(self.y, p), "logloss": metrics.logloss(self.y, p)}
        v, said, log = np.log1p(self.amount), value[at].astype(float), log_value[at].astype(float)
        found |= {
            "MSE": metrics.mse(v, log),
            "MAE": metrics.mae(v, log),
            OVER: metrics.mse(self.log_value.ravel(), log_value.ravel().astype(float)),
            "MSE, log of ETV": metrics.mse(v, np.log1p(said)),
            MONEY: float(np.sqrt(metrics.mse(self.amount, said))),
            OVER_MONEY: float(np.sqrt(metrics.mse(self.value.ravel(), value.ravel().astype(float)))),
            "Gini": metrics.normalized_gini(self.amount, said),
        }
        chosen = np.where(self.allowed, value, -np.inf).argmax(axis=0)
        best = np.where(self.allowed, self.value, -np.inf).max(axis=0)
        given, taken = self.level, chosen[self.place]
        columns = np.arange(chosen.size)
        return found | {
            "THC": metrics.thc(self.y, given=given, chosen=taken),
            "THA": metrics.tha(self.amount, given=given, chosen=taken),
            CHOICE: metrics.objective_ratio(self.value[chosen, columns], best),
        }

    def truth(self) -> dict[str, float]:
        """The figures of who knows everything but the outcomes."""
        return self.figures(self.convert, self.value, self.log_value)

    def of(self, model: FundModel) -> dict[str, float]:
        probability, value, log_value = self.said(model)
        return self.figures(probability if model.converts else None, value, log_value)

    def said(self, model: FundModel) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """(K, N) each: a fitted model's score of a conversion, its E[PA] in units and its E[log(1 + PA)]."""
        value, log_value = model.value(self.users) / UNIT, model.log_value(self.users)
        return model.curve(self.users).response, value, log_value


def offline(seed: int, quick: bool) -> Rows:
    """Every model on a drawn delivery, one open to new funds, and some where no wealth flows along the graph."""
    found: dict[str, dict[str, float]] = {}
    worlds: tuple[tuple[str, tuple[str, ...], dict[str, Any]], ...] = (
        ("", tuple(MODELS), {}),
        (APART, WITHOUT_WEALTH, {"strength": 0.0}),
    )
    for suffix, rows, more in worlds:
        judged = Judged(draw(options(quick, **more), FIRST + seed), seed, later=QUICK_LATER if quick else LATER)
        of = judged.drawn, judged.learnt, seed, quick
        for row in rows:
            name, given = MODELS[row]
            found[row + suffix] = judged.of(fit(name, *of, training=OFFLINE, **given))
        if not suffix:
            name, given = MODELS["ESDPM"]
            found["ESDPM" + NEW] = judged.of(fit(name, *of, training=OFFLINE, **(given | OPEN)))
            found[TRUTH] = judged.truth()
    return found
