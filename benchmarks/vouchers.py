"""Voucher graphs built a second, and sessions trained on a second by DMBGN and by a plain network on the same rows."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from benchmarks.cells import Cells
from benchmarks.timing import best
from shadowprice.datasets.vouchers import generate
from shadowprice.graphs.sessions import SessionLog
from shadowprice.graphs.voucher_graphs import build_graphs
from shadowprice.responses import make
from shadowprice.responses.training import TrainingConfig

BATCH = 1024
EPOCHS = 12
"""So many, because other work on a machine takes its caches: the least is the nearest to what a step takes alone."""

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "DNN": ("dnn_offer", {}),
    "DIN": ("din", {}),
    "DMBGN, every step": ("dmbgn", {"pretraining": 0}),
    "DMBGN, 40 % of the steps": ("dmbgn", {"pretraining": 0, "fine_tuning": 0.4}),
    "DMBGN, as pre-trained": ("dmbgn_pretrained", {"pretraining": 0}),
}


def run(cells: Cells, *, quick: bool = False) -> dict[str, Any]:
    """Sizes in sessions; processor time of this process, on one thread, so that a shared machine matters less."""
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
    trained: dict[str, float] = {}
    for label, (name, options) in MODELS.items():
        given = {"sessions": log, **options} if name != "dnn_offer" else options
        seconds = cells.of(label, partial(_seconds_of_an_epoch, name, log.levels, frame, given))
        trained[label] = 0.85 * sessions / seconds
        print(f"{label:26} {trained[label]:12,.0f} sessions a second, {trained['DNN'] / trained[label]:5.1f} × the DNN")
    sizes = {"sessions": sessions, "nodes": int(log.graphs.row.size), "batch": BATCH}
    return {**sizes, "graphs_per_second": built, "trained_per_second": trained}


def _seconds_of_an_epoch(name: str, levels: Any, frame: pd.DataFrame, options: dict[str, Any]) -> float:
    """Processor time between the ends of two epochs, the least of :data:`EPOCHS`: what is done once is not counted."""
    ends: list[float] = []
    training = TrainingConfig(epochs=EPOCHS + 1, patience=EPOCHS, batch_rows=BATCH, learning_rate=1e-3)
    make(name, levels=levels, training=training, progress=lambda _: ends.append(time.process_time()), **options).fit(
        frame
    )
    return float(np.diff(ends).min())
