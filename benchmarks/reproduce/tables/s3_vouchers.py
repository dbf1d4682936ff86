"""S3's experiment on generated voucher sessions: fit before an instant, judge after it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from shadowprice.datasets.vouchers import VoucherData, generate
from shadowprice.evaluation import metrics
from shadowprice.graphs.leaks import check_known, check_split
from shadowprice.graphs.sessions import SessionLog
from shadowprice.responses import make
from shadowprice.responses.base import ResponseModel
from shadowprice.responses.sessions import SessionModel

SESSIONS = 5000
QUICK_SESSIONS = 1500
FIRST = 100
"""Data of seed 0: others than those that options were chosen on."""
STRENGTH = 4.0
"""Of the match of voucher and items, and of the habit."""
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "LR": ("lr", {}),
    "GBDT": ("gbdt", {"level": "free"}),
    "DNN": ("dnn_offer", {}),
    "WDL": ("wdl", {}),
    "DIN": ("din", {}),
    "AvgPooling": ("dmbgn_avg_pooling", {}),
    "Pretrained": ("dmbgn_pretrained", {}),
    "DMBGN": ("dmbgn", {}),
    "pre-collection only": ("dmbgn_before_only", {}),
    "graphs anew in 40 % of steps": ("dmbgn", {"fine_tuning": 0.4}),
}
"""Row → registered model and options. GBDT sees of a voucher its discount alone, the others its id too."""
DATA = (
    f"simulated: {SESSIONS:,} voucher sessions after S3's region A in proportion (8 vouchers of 4 categories that no "
    "column shows; redemption depends on the match of voucher and items, on lasting taste, and on how active a person "
    "is; 48 days to learn from, 12 to be judged by)"
)


def draw(
    seed: int, quick: bool, history: str = "kept", *, match: float = STRENGTH, habit: float = STRENGTH
) -> tuple[VoucherData, SessionLog, pd.DataFrame, pd.DataFrame]:
    """Data, log, and the requests to learn from and to be judged by; refused where anything leaks."""
    sessions = QUICK_SESSIONS if quick else SESSIONS
    data = generate(seed=FIRST + seed, sessions=sessions, history=history, match=match, habit=habit)
    log, part = SessionLog.build(data.tables), data.part()
    check_split(log, part)
    check_known(log, part == "train", data.test_from, data.label_days)
    return data, log, log.requests(part == "train"), log.requests(part == "test")


def fit(row: str, log: SessionLog, train: pd.DataFrame, seed: int) -> ResponseModel:
    """The model of a row of the table."""
    name, options = MODELS[row]
    sessions = {"sessions": log} if name == "din" or name.startswith("dmbgn") else {}
    return make(name, levels=log.levels, seed=seed, **options, **sessions).fit(train)


def respond(model: ResponseModel, frame: pd.DataFrame) -> np.ndarray:
    """(N,): the response of each row at its own voucher."""
    if isinstance(model, SessionModel):
        return model.at(frame)
    return np.asarray(model.curve(frame).response[frame["level"].to_numpy(), np.arange(len(frame))])


def judge(frame: pd.DataFrame, response: np.ndarray) -> dict[str, float]:
    """AUC and log loss."""
    y, p = frame["response"].to_numpy(), response.astype(np.float64)
    return {"AUC": float(metrics.auc(y, p)), "logloss": float(metrics.logloss(y, np.clip(p, 1e-6, 1 - 1e-6)))}
