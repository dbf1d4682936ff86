"""Voucher graphs built a second, and sessions trained on a second by DMBGN and by a plain network on the same rows."""

from __future__ import annotations

import os
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
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.training import TrainingConfig

BATCHES = (256, 1024)
"""Rows of a step: what all models of vouchers are trained with here, and the paper's."""
HELD_OUT = 0.01
"""Of the accounts: so few that judging them after every epoch counts for nothing."""
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
    """Sizes in sessions; processor time of one thread, so that a shared machine matters less, and then the clock, with
    as many threads as the machine has cores for all models. The plain network's by the clock is the better of both."""
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

    def epochs(threads: int, batch: int) -> dict[str, Any]:
        """Time the epochs of every model, (epochs, 2): see :class:`~benchmarks.turns.Took`."""

        def job(name: str, given: dict[str, Any]) -> Job:
            training = TrainingConfig(epochs=EPOCHS + 1, patience=EPOCHS, batch_rows=batch, learning_rate=1e-3)

            def fit(end: Callable[[object], None]) -> None:
                torch.set_num_threads(threads)
                options: dict[str, Any] = {"training": training, "held_out": HELD_OUT, "progress": end}
                make(name, levels=log.levels, inputs=Inputs(sessions=log), **options, **given).fit(frame)

            return fit

        jobs = {label: job(name, options) for label, (name, options) in MODELS.items()}
        took = cells.of(f"epochs in turn on {threads}, steps of {batch}", lambda: in_turns(jobs))
        # What is done once is in the first.
        return {label: np.asarray(each[1:]) for label, each in took.items()}

    threads = os.cpu_count() or 1
    found: dict[str, dict[str, Any]] = {}
    for batch in BATCHES:
        one, all_threads = epochs(1, batch), epochs(threads, batch)
        plain = min((one["DNN"][:, 1], all_threads["DNN"][:, 1]), key=np.median)
        for way, took, dnn in (
            ("one_thread", {label: each[:, 0] for label, each in one.items()}, one["DNN"][:, 0]),
            (
                "by_the_clock",
                {**{label: all_thread[:, 1] for label, all_thread in all_threads.items()}, "DNN": plain},
                plain,
            ),
        ):
            trained = {label: (1 - HELD_OUT) * sessions / float(np.median(each)) for label, each in took.items()}
            times = {label: np.divide(each, dnn).tolist() for label, each in took.items()}
            for label, speed in trained.items():
                low, mid, high = np.quantile(times[label], [0.25, 0.5, 0.75])
                print(
                    f"{batch:5} {way:12} {label:26} {speed:9,.0f} sessions a second, "
                    f"{mid:4.2f} × the DNN's, {low:.2f} to {high:.2f}"
                )
            found.setdefault(str(batch), {})[way] = {"trained_per_second": trained, "times_the_dnn": times}
    sizes = {"sessions": sessions, "nodes": int(log.graphs.row.size), "threads": threads}
    return {**sizes, "graphs_per_second": built, "steps": found}
