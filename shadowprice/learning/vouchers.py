"""From voucher sessions to stored curves: the steps of the pipeline of vouchers, each a function of folders.

A folder of sessions holds ``tables/`` and ``dataset.json``; one of graphs, ``graphs.npz``. What is served
is the curve of every person's latest session over the vouchers on offer (decision record 5).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from shadowprice.checks import require
from shadowprice.datasets.folder import read_sessions, write_tables
from shadowprice.datasets.package import META, read_meta
from shadowprice.datasets.vouchers import VoucherData, generate, read
from shadowprice.encoders.base import WIDTH
from shadowprice.evaluation import metrics
from shadowprice.files import write_whole
from shadowprice.graphs.leaks import check_known, check_past, check_split, check_target
from shadowprice.graphs.sessions import SessionLog, nanoseconds, session_ends
from shadowprice.graphs.voucher_graphs import VoucherGraphs
from shadowprice.learning.bundle import Served, write_served
from shadowprice.learning.training_set import FILE as TRAINING_SET
from shadowprice.progress import ProgressBar
from shadowprice.responses import load, make
from shadowprice.responses.base import ResponseModel, at_level, labels
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.layers.heads import StoredHead
from shadowprice.responses.repair.repair import Repair
from shadowprice.responses.stored import as_embedding, check_width
from shadowprice.responses.tabular.network import TabularNetwork
from shadowprice.responses.training.checkpoint import checkpointing
from shadowprice.responses.training.team import has_team
from shadowprice.responses.vouchers.sessions import SessionModel

TABLES = "tables"
KIND = "vouchers"
GRAPHS = "graphs.npz"


def prepare(out: Path, data: str, test_from: str, seed: int, options: Mapping[str, Any]) -> VoucherData:
    """Check the sessions in the folder ``data``, or generate some where it is empty, and write them to ``out``."""
    found = read(data, test_from=test_from) if data else generate(seed=seed, **options)
    out.mkdir(parents=True, exist_ok=True)
    write_tables(found.tables, out / TABLES)
    meta = {"kind": KIND, "test_from": found.test_from.isoformat(), "notes": found.notes}
    write_whole(out / META, json.dumps(meta, indent=1))
    return found


def read_prepared(folder: Path) -> VoucherData:
    """Read what :func:`prepare` wrote, or :class:`NotFound`."""
    meta = read_meta(folder)
    tables = read_sessions(folder / TABLES)
    return VoucherData(tables, datetime.fromisoformat(meta["test_from"]), None, meta["notes"])


def build(prepared: Path, out: Path) -> dict[str, float]:
    """Build the graphs, refuse what leaks, and write them; returns how many there are of what."""
    data = read_prepared(prepared)
    log, part = SessionLog.build(data.tables), data.part()
    check_split(log, part)
    check_known(log, part == "train", data.test_from)
    everyone = np.arange(log.graphs.sessions)
    check_target(log, everyone, log.graphs.targets(everyone))
    # Pre-training reads the graphs of all sessions, not only of those in a history.
    check_past(log, session_ends(data.tables.session), everyone[:, None])
    out.mkdir(parents=True, exist_ok=True)
    log.graphs.save(out / GRAPHS)
    write_whole(out / TRAINING_SET, json.dumps({"kind": KIND}))
    parts = {f"sessions_{name}": float((part == name).sum()) for name in ("train", "purged", "test")}
    return {"sessions": float(part.size), "nodes": float(log.graphs.row.size), "vouchers": len(log.offered), **parts}


def read_log(prepared: Path, graphs: Path) -> tuple[VoucherData, SessionLog]:
    """The sessions with the graphs that :func:`build` wrote."""
    data = read_prepared(prepared)
    return data, SessionLog.build(data.tables, graphs=VoucherGraphs.load(graphs / GRAPHS))


def train(
    prepared: Path, graphs: Path, out: Path, name: str, epochs: int, seed: int, *, precision: str = "float32"
) -> dict[str, float]:
    """Fit the response model called ``name`` (pre-training included) on the training sessions and save it.

    A checkpoint in ``out`` of the same data is resumed.
    """
    data, log = read_log(prepared, graphs)
    model = make(name, levels=log.levels, seed=seed, inputs=Inputs(sessions=log))
    if isinstance(model, TabularNetwork):
        model.training = replace(model.training, epochs=epochs, precision=precision)
    with (
        checkpointing(out / "checkpoint", stamp=f"{name} {_digest(prepared, graphs)}"),
        ProgressBar(f"train {name}", epochs, "epoch", shown=not has_team()) as bar,
    ):
        if isinstance(model, TabularNetwork):
            model.progress = bar.epoch
        model.fit(log.requests(data.part() == "train"))
    model.save(out)
    found: dict[str, float] = {}
    for prefix, result in zip(("", "pretraining_"), reversed(getattr(model, "results", [])), strict=False):
        found |= {f"{prefix}validation_loss": result.validation_loss, f"{prefix}epochs": result.epochs}
    return found


def _digest(prepared: Path, graphs: Path) -> str:
    """Digest of all that training reads."""
    found = hashlib.sha256()
    for path in (*sorted((prepared / TABLES).iterdir()), prepared / META, graphs / GRAPHS):
        with path.open("rb") as file:
            found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()


def evaluate(prepared: Path, graphs: Path, model: Path) -> dict[str, float]:
    """AUC, log loss and calibration error on the test sessions."""
    data, log = read_log(prepared, graphs)
    fitted = _load(model, log)
    test = log.requests(data.part() == "test")
    require(len(test), "test_from", "there is no test session")
    level, y = labels(test)
    p = fitted.at(test).astype(np.float64) if isinstance(fitted, SessionModel) else at_level(fitted.curve(test), level)
    return {
        "auc": float(metrics.auc(y, p)),
        "logloss": float(metrics.logloss(y, np.clip(p, 1e-6, 1 - 1e-6))),
        "mean_response": float(y.mean()),
        "mean_prediction": float(p.mean()),
        "test_sessions": float(y.size),
    }


def store_curves(prepared: Path, graphs: Path, model: Path, out: Path, found: Mapping[str, float]) -> str:
    """Write the bundle of the curves of everyone's latest session and return its version.

    Discounts are multiplied by responses, which therefore must mean what they say: curves are calibrated on the test
    sessions, where that takes something off the squared error of rows that it was not fitted on.
    """
    data, log = read_log(prepared, graphs)
    check_width(log.levels, "offered")
    fitted = _load(model, log)
    session = log.tables.session
    latest = pd.Series(nanoseconds(session["collected_at"])).groupby(session["user_id"].to_numpy()).idxmax()
    asked = log.requests(np.sort(latest.to_numpy()))
    test = log.requests(data.part() == "test")
    repair = Repair.fit(
        fitted.curve(test),
        test["level"],
        test["response"],
        calibration="pooled",
        project=False,
        account=test["account_id"],
    )
    curves = repair.apply(fitted.curve(asked))
    embedding = as_embedding(curves.response)
    head = StoredHead(levels=curves.levels, default_embedding=embedding.mean(axis=0))
    sides = {"customer": {"model": fitted.name, "head": StoredHead.kind, "levels": curves.levels.tolist()}}
    return write_served(
        {"customer": Served(asked["account_id"].to_numpy(dtype=str), embedding, head)},
        out,
        recipe=fitted.name,
        describe={
            "kind": KIND,
            "width": WIDTH,
            "sides": sides,
            "offers": list(log.offered),
            "repair": repair.to_dict(),
        },
        corrections={},
        metrics=dict(found),
    )


def _load(model: Path, log: SessionLog) -> ResponseModel:
    """The fitted model; one that reads sessions is given the log."""
    return load(model, Inputs(sessions=log))
