"""Voucher graphs built a second, and sessions trained on a second by DMBGN and by a plain network on the same rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch

from benchmarks.cells import Cells
from benchmarks.timing import best
from benchmarks.turns import Job, in_turns
from shadowprice.datasets.vouchers import generate
from shadowprice.graphs.sessions import SessionLog
from shadowprice.graphs.voucher_graphs import build_graphs
from shadowprice.responses import make
from shadowprice.responses.training import TrainingConfig

BATCH = 1024
EPOCHS = 12
"""Each is set against the DNN's beside it: from one minute to another the same work takes half as long again, and
longer where it waits for memory."""

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "DNN": ("dnn_offer", {}),
    "DIN": ("din", {}),
    "DMBGN, every step": ("dmbgn", {"pretraining": 0}),
    "DMBGN, 40 % of the steps": ("dmbgn", {"pretraining": 0, "fine_tuning": 0.4}),
    "DMBGN, as pre-trained": ("dmbgn_pretrained", {"pretraining": 0}),
}


def run(cells: Cells, *, quick: bool = False) -> dict[str, Any]:
    """Sizes in sessions; processor time of one thread, so that a shared machine matters less."""
    torch.set_num_threads(1)
    sessions = 10_000 if quick else 100_000
    data = generate(seed=0, sessions=sessions)
    log = SessionLog.build(data.tables)
    place = pd.Index(data.tables.session["session_id"]).get_indexer(pd.Index(data.tables.behaviour["session_id"]))

    def build() -> float:
        codes = place.astype(np.int64)
        seconds, _ = best(lambda: build_graphs(data.tables.behaviour, codes, sessions), clock=time.process_time)
        return sessions / seconds

    built = cells.of(f"graphs of {sessions} sessions", build)
    print(f"graphs of {sessions:,} sessions, {log.graphs.row.size:,} nodes: {built:,.0f} sessions a second")
    frame = log.requests()

    def job(name: str, given: dict[str, Any]) -> Job:
        training = TrainingConfig(epochs=EPOCHS + 1, patience=EPOCHS, batch_rows=BATCH, learning_rate=1e-3)

        def fit(end: Callable[[object], None]) -> None:
            torch.set_num_threads(1)
            make(name, levels=log.levels, training=training, progress=end, **given).fit(frame)

        return fit

    jobs = {
        label: job(name, {"sessions": log, **options} if name != "dnn_offer" else options)
        for label, (name, options) in MODELS.items()
    }
    # What is done once is in the first.
    epochs = {label: took[1:] for label, took in cells.of("epochs in turn", lambda: in_turns(jobs)).items()}
    trained = {label: 0.85 * sessions / float(np.median(took)) for label, took in epochs.items()}
    times = {label: np.divide(took, epochs["DNN"]).tolist() for label, took in epochs.items()}
    for label, speed in trained.items():
        low, mid, high = np.quantile(times[label], [0.25, 0.5, 0.75])
        print(f"{label:26} {speed:12,.0f} sessions a second, {mid:5.2f} × the DNN's time, {low:.2f} to {high:.2f}")
    sizes = {"sessions": sessions, "nodes": int(log.graphs.row.size), "batch": BATCH}
    return {**sizes, "graphs_per_second": built, "trained_per_second": trained, "times_the_dnn": times}
