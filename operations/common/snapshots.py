"""Snapshots of the graph, from the tables and the ties of a workspace."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import tee
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from feature_repo.offline import training_frames
from shadowprice.campaign import SIDES, Side
from shadowprice.graphs.aggregates import interactions_queries
from shadowprice.graphs.build import build_snapshot
from shadowprice.graphs.communities import members
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.graphs.tie_sums import TieSums, keep, kept, latest
from shadowprice.tables import Tables
from shadowprice.tables.database import BATCH, write_batches


def sum_ties(tables: Tables, times: Sequence[datetime], folder: Path, scratch: Path) -> list[TieSums]:
    """Sum the events of each pair until each instant; events that ``folder`` has sums of are not summed again."""
    before, made = kept(folder, tables), list[TieSums]()
    for number, at in enumerate(times):
        ties = latest(before + made, at)
        if ties is None or ties.at < at:
            ties = TieSums.until(tables, at, scratch / f"{number}.parquet", ties)
        made.append(ties)
    return keep(made, folder, tables)


def sum_interactions(tables: Tables, ties: TieSums, folder: Path) -> list[Path]:
    """Write the aggregates of the instant of the sums, a file per side."""
    folder.mkdir()
    files = []
    with tables.connect(threads=1) as db:
        for number, query in enumerate(interactions_queries(tables, ties.at, ties)):
            files.append(folder / f"{number}.parquet")
            write_batches(files[-1], db.sql(query).to_arrow_reader(BATCH))
    return files


def take_snapshot(store: Any, tables: Tables, ties: TieSums, until: datetime | None) -> GraphSnapshot:
    """The graph at the instant of ``ties``: accounts profiled then, tied by then, or asking before the next snapshot.

    A tie to an account that has no profile yet is left out: its features are unknown.
    """
    return build_snapshot(_nodes(store, tables, ties.at, until), ties, ties.at)


def _nodes(store: Any, tables: Tables, at: datetime, until: datetime | None) -> pd.DataFrame:
    """Accounts of a snapshot with their features."""

    def moments() -> Iterator[tuple[Side, pd.DataFrame]]:
        for side in SIDES:
            accounts = members(tables, side, at, until)
            for start in range(0, accounts.size, BATCH):
                names = accounts[start : start + BATCH]
                yield side, pd.DataFrame({"account_id": names, "decided_at": pd.Timestamp(at)})

    asked, own = tee(moments())
    parts = []
    for frame, (side, moment) in zip(training_frames(store, asked), own, strict=True):
        features = frame.drop(columns="snapshot_at")
        numbers = dict.fromkeys((name for name in features.columns if not name.startswith("c_")), np.float32)
        parts.append(pd.concat([moment[["account_id"]].assign(side=side), features.astype(numbers)], axis=1))
    return pd.concat(parts, ignore_index=True)
