"""A training set without a feature store, for experiments and tests."""

from typing import Any

import pandas as pd

from shadowprice.datasets import load
from shadowprice.datasets.registry import Dataset
from shadowprice.graphs.aggregates import interactions
from shadowprice.graphs.build import build_snapshot
from shadowprice.learning.labeling import inputs_of
from shadowprice.learning.training_set import TrainingSet
from shadowprice.tables import campaign_from_tables, labeled


def training_set(name: str, seed: int = 0, shuffle: bool = False, **options: Any) -> tuple[Dataset, TrainingSet]:
    """A generated data set and its training set with one snapshot; ``shuffle`` permutes the ends of the ties."""
    dataset = load(name, seed=seed, **options)
    found = training_set_of(dataset)
    if shuffle:
        found = found.seeing([snapshot.shuffled(seed) for snapshot in found.snapshots])
    return dataset, found


def training_set_of(dataset: Dataset) -> TrainingSet:
    """Training set of a data set of campaigns, with one snapshot."""
    tables, campaign = dataset.tables, campaign_from_tables(dataset.tables)
    terms = campaign.sides
    taken = tables.account["snapshot_ts"].iloc[0].to_pydatetime()
    nodes = tables.account.drop(columns="snapshot_ts").merge(
        interactions(tables, taken).drop(columns="snapshot_ts"), on=["account_id", "side"], how="left"
    )
    snapshot = build_snapshot(nodes, tables.edge, taken)
    rows = {}
    for side in terms:
        found = labeled(tables, side)
        if len(found):
            rows[side] = found.assign(
                split=dataset.split.assign(found), snapshot_at=found["decided_at"].astype("int64") / 1e9
            )
    serving = {
        side: pd.DataFrame({"account_id": nodes.loc[nodes["side"] == side, "account_id"]}).reset_index(drop=True)
        for side in rows
    }
    return TrainingSet(
        rows,
        serving,
        inputs_of(tables, campaign, [snapshot]),
        {side: terms[side].levels for side in rows},
        {side: context_columns(frame) for side, frame in rows.items()},
        offers={side: terms[side].offers for side in rows if terms[side].amounts},
        unordered=tuple(side for side in rows if not terms[side].ordered),
    )


def context_columns(rows: pd.DataFrame) -> tuple[str, ...]:
    """Return the columns of requests (x_*, c_*) in which a row has a value."""
    return tuple(name for name in rows.columns if name.startswith(("x_", "c_")) and rows[name].notna().any())
