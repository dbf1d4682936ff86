"""A training set without a feature store, for experiments and tests."""

from __future__ import annotations

from typing import Any

import pandas as pd

from shadowprice.campaign import SIDES
from shadowprice.datasets import load
from shadowprice.datasets.registry import Dataset
from shadowprice.graphs.aggregates import interactions
from shadowprice.graphs.build import build_snapshot
from shadowprice.learning.training_set import TrainingSet
from shadowprice.tables import labelled


def training_set(name: str, seed: int = 0, shuffle: bool = False, **options: Any) -> tuple[Dataset, TrainingSet]:
    """A generated data set and its training set with one snapshot; ``shuffle`` permutes the ends of the ties."""
    dataset = load(name, seed=seed, **options)
    tables = dataset.tables
    taken = tables.account["snapshot_ts"].iloc[0].to_pydatetime()
    nodes = tables.account.drop(columns="snapshot_ts").merge(
        interactions(tables, taken).drop(columns="snapshot_ts"), on=["account_id", "side"]
    )
    snapshot = build_snapshot(nodes, tables.edge, taken)
    if shuffle:
        snapshot = snapshot.shuffled(seed)
    rows, levels = {}, {}
    for side in SIDES:
        found = labelled(tables, side)
        if len(found):
            rows[side] = found.assign(
                split=dataset.split.assign(found), snapshot_at=found["decided_at"].astype("int64") / 1e9
            )
            levels[side] = tuple(sorted(tables.offer.loc[tables.offer["side"] == side, "face_value"]))
    serving = {
        side: pd.DataFrame({"account_id": nodes.loc[nodes["side"] == side, "account_id"]}).reset_index(drop=True)
        for side in rows
    }
    context = {side: context_columns(frame) for side, frame in rows.items()}
    return dataset, TrainingSet(rows, serving, [snapshot], levels, context)


def context_columns(rows: pd.DataFrame) -> tuple[str, ...]:
    """Return the columns of requests (x_*, c_*) in which a row has a value."""
    return tuple(name for name in rows.columns if name.startswith(("x_", "c_")) and rows[name].notna().any())
