"""S3's Tables 3 and 4: who redeems a voucher, by model, and with the history destroyed."""

from __future__ import annotations

import numpy as np

from benchmarks.reproduce.summary import Summary
from benchmarks.reproduce.table import Rows, Table
from benchmarks.reproduce.tables.s3_vouchers import DATA, MODELS, draw, fit, judge, respond

DESTROYED = "AUC, history destroyed"
WITHOUT_HISTORY = ("DNN", "DIN", "AvgPooling", "DMBGN")
TRUTH = "true probability"


def run(seed: int, quick: bool) -> Rows:
    """Every model on the sessions of one seed, and those that tell what history is worth where it was destroyed."""
    data, log, train, test = draw(seed, quick)
    found = {row: judge(test, respond(fit(row, log, train, seed), test)) for row in MODELS}
    assert data.truth is not None
    truth = data.truth[data.part() == "test"][np.arange(len(test)), test["level"]]
    found[TRUTH] = judge(test, truth)
    _, log, train, test = draw(seed, quick, "destroyed")
    for row in WITHOUT_HISTORY:
        found[row][DESTROYED] = judge(test, respond(fit(row, log, train, seed), test))["AUC"]
    return found


def reading(found: Summary) -> str:
    """What was found, better or not."""
    pairs = [
        ("AUC", "DMBGN", "DIN"),
        ("AUC", "DIN", "DNN"),
        ("AUC", "DMBGN", "AvgPooling"),
        ("AUC", "DMBGN", "Pretrained"),
        ("AUC", "DMBGN", "pre-collection only"),
        (DESTROYED, "DIN", "DNN"),
        (DESTROYED, "DMBGN", "AvgPooling"),
    ]
    told = " ".join(found.sentence(*pair) + "." for pair in pairs)
    return told + " Heights do not compare with the paper's: its data are not public."


TABLE = Table(
    title="Redemption of vouchers, by model",
    source="Tables 3 and 4 of S3 (DMBGN, KDD 2021), region A",
    data=DATA,
    run=run,
    reading=reading,
    published={
        "LR": {"AUC": 0.7491, "logloss": 0.4385},
        "GBDT": {"AUC": 0.7538, "logloss": 0.4215},
        "DNN": {"AUC": 0.7739, "logloss": 0.4156},
        "WDL": {"AUC": 0.7752, "logloss": 0.4145},
        "DIN": {"AUC": 0.7912, "logloss": 0.4021},
        "AvgPooling": {"AUC": 0.7961, "logloss": 0.3975},
        "Pretrained": {"AUC": 0.8012, "logloss": 0.3954},
        "DMBGN": {"AUC": 0.8034, "logloss": 0.3921},
        "pre-collection only": {"AUC": 0.8014, "logloss": 0.3937},
    },
    compare=[
        ("AUC", "DMBGN", "DIN"),
        ("AUC", "DIN", "DNN"),
        ("AUC", "DMBGN", "AvgPooling"),
        ("AUC", "DMBGN", "Pretrained"),
        ("AUC", "DMBGN", "pre-collection only"),
        (DESTROYED, "DIN", "DNN"),
        (DESTROYED, "DMBGN", "AvgPooling"),
    ],
    fewer_is_better=["logloss"],
)
