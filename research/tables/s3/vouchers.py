"""S3's experiment on generated voucher sessions: fit before an instant, judge after it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from research.models import make
from shadowprice.datasets.voucher_draws import order_of_carts
from shadowprice.datasets.vouchers import DAYS, Region, VoucherData, generate
from shadowprice.evaluation import metrics
from shadowprice.graphs.leaks import check_known, check_split
from shadowprice.graphs.sessions import SessionLog, nanoseconds
from shadowprice.responses.base import ResponseModel
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.vouchers.sessions import SessionModel
from shadowprice.tables.schema import PHASES

SESSIONS: dict[Region, int] = {"A": 30_000, "B": 33_000, "C": 36_000}
"""In the order of S3's regions (3.4, 14 and 24 million): a third of them, more than 10,000, are the test."""
QUICK_SESSIONS = 1500
TEST_DAYS = 21
STRENGTH = 4.0
"""Of the match of voucher and items, and of the habit."""
CROSSED = "crossed counts"
CROSSED_ORDER = "crossed counts and order"
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "LR": ("lr", {}),
    "GBDT": ("gbdt", {"level": "free"}),
    "DNN": ("dnn_offer", {}),
    "WDL": ("wdl", {}),
    f"LR, {CROSSED}": ("lr", {}),
    f"GBDT, {CROSSED}": ("gbdt", {"level": "free"}),
    "DIN": ("din", {}),
    "AvgPooling": ("dmbgn_avg_pooling", {}),
    "Pretrained": ("dmbgn_pretrained", {}),
    "DMBGN": ("dmbgn", {}),
    "pre-collection only": ("dmbgn_before_only", {}),
}
"""Row → registered model and options. GBDT sees of a voucher its discount alone, the others its id too."""
IN_ORDER = f"LR, {CROSSED_ORDER}"
CONTROLS: dict[str, tuple[str, dict[str, Any]]] = {IN_ORDER: ("lr", {})}
"""Rows where the order of the carts counts."""


def describe(*regions: Region) -> str:
    """Return what a table on these regions is measured on."""
    sizes = ", ".join(f"{SESSIONS[region]:,} of region {region}" for region in regions)
    return (
        f"voucher sessions after S3 ({sizes}; 8 vouchers, in B 4, of 4 categories that no column shows; redemption "
        "depends on the match of voucher and items, on taste and on activity; "
        f"{DAYS - TEST_DAYS} days to learn, {TEST_DAYS} to judge); simulated"
    )


def draw(
    seed: int,
    quick: bool,
    region: Region = "A",
    *,
    history: str = "kept",
    match: float = STRENGTH,
    habit: float = STRENGTH,
    order: float = 0.0,
) -> tuple[VoucherData, SessionLog, pd.DataFrame, pd.DataFrame]:
    """Data, log, and the requests to learn from and to be judged by; refused where anything leaks."""
    sessions = QUICK_SESSIONS if quick else SESSIONS[region]
    strength = {"match": match, "habit": habit, "order": order}
    data = generate(seed=seed, region=region, sessions=sessions, test_days=TEST_DAYS, history=history, **strength)
    log, part = SessionLog.build(data.tables), data.part()
    check_split(log, part)
    check_known(log, part == "train", data.test_from)
    return data, log, log.requests(part == "train"), log.requests(part == "test")


def fit(row: str, log: SessionLog, train: pd.DataFrame, seed: int) -> ResponseModel:
    name, options = (MODELS | CONTROLS)[row]
    return make(name, levels=log.levels, seed=seed, inputs=Inputs(sessions=log), **options).fit(shown(row, log, train))


def respond(row: str, log: SessionLog, model: ResponseModel, frame: pd.DataFrame) -> np.ndarray:
    """(N,): the response of each row of ``frame`` at its own voucher."""
    if isinstance(model, SessionModel):
        return model.at(frame)
    return np.asarray(model.curve(shown(row, log, frame)).response[frame["level"].to_numpy(), np.arange(len(frame))])


def shown(row: str, log: SessionLog, frame: pd.DataFrame) -> pd.DataFrame:
    """``frame`` with the columns that only a row of the table reads."""
    if row.endswith(CROSSED_ORDER):
        return crossed_order(log, frame)
    return crossed(log, frame) if row.endswith(CROSSED) else frame


def crossed(log: SessionLog, frame: pd.DataFrame) -> pd.DataFrame:
    """``frame`` and, for every category and voucher, the session's items of the category if the voucher is its own.

    Counted before the collection, once as a number and once as a share of the session's items: what a flat model reads
    of the cart. A voucher stands for its category, which no column shows.
    """
    behaviour = log.tables.behaviour
    before = behaviour[behaviour["phase"] == PHASES[0]]
    table = pd.crosstab(before["session_id"], before["category"])
    count = table.reindex(frame["session_id"], fill_value=0).to_numpy(dtype=np.float64)
    share = count / np.maximum(count.sum(axis=1, keepdims=True), 1)
    own = frame["level"].to_numpy()[:, None] == np.arange(len(log.offered))
    columns = {
        f"x_{kind}_{category}_{offer}": np.where(own[:, place], values[:, number], 0.0)
        for kind, values in (("count", count), ("share", share))
        for number, category in enumerate(table.columns)
        for place, offer in enumerate(log.offered)
    }
    return pd.concat([frame, pd.DataFrame(columns, index=frame.index)], axis=1)


def crossed_order(log: SessionLog, frame: pd.DataFrame) -> pd.DataFrame:
    """:func:`crossed` and, for every category and voucher, the order of the carts as the generator's logit reads it."""
    behaviour = log.tables.behaviour
    carts = behaviour[(behaviour["phase"] == PHASES[0]) & (behaviour["action"] == "cart")]
    carts = carts[carts["session_id"].isin(frame["session_id"])]
    session = pd.Index(frame["session_id"]).get_indexer(carts["session_id"]).astype(np.int64)
    latest = np.lexsort((-nanoseconds(carts["ts"]), session))
    category = np.asarray(carts["category"].str.removeprefix("category-").astype(np.int64), dtype=np.int64)
    term = order_of_carts(session[latest], category[latest], len(frame))
    own = frame["level"].to_numpy()[:, None] == np.arange(len(log.offered))
    columns = {
        f"x_order_{number}_{offer}": np.where(own[:, place], values, 0.0)
        for number, values in enumerate(term.T)
        for place, offer in enumerate(log.offered)
    }
    return pd.concat([crossed(log, frame), pd.DataFrame(columns, index=frame.index)], axis=1)


def judge(frame: pd.DataFrame, response: np.ndarray) -> dict[str, float]:
    y, p = frame["response"].to_numpy(), response.astype(np.float64)
    return {"AUC": float(metrics.auc(y, p)), "logloss": float(metrics.logloss(y, np.clip(p, 1e-6, 1 - 1e-6)))}


def measured(row: str, log: SessionLog, train: pd.DataFrame, test: pd.DataFrame, seed: int) -> dict[str, float]:
    """The figures of a row that is fitted to ``train``."""
    return judge(test, respond(row, log, fit(row, log, train, seed), test))


def retold(seed: int, data: VoucherData, **tables: pd.DataFrame) -> dict[str, float]:
    """The figures of DMBGN where the session or behavior of the data are others."""
    log = SessionLog.build(replace(data.tables, **tables))
    part = data.part()
    return measured("DMBGN", log, log.requests(part == "train"), log.requests(part == "test"), seed)


def true_ones(data: VoucherData, test: pd.DataFrame) -> np.ndarray:
    """(N,): true probabilities of the test's requests."""
    assert data.truth is not None
    return np.asarray(data.truth[data.part() == "test"][np.arange(len(test)), test["level"]])
