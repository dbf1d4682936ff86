"""Build a graph snapshot from the features of accounts and their payments."""

from datetime import datetime

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import SIDES, Side
from shadowprice.checks import refuse_rows
from shadowprice.graphs.categories import texts
from shadowprice.graphs.pairs import pairs_of, pairs_until
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.graphs.tie_sums import TieSums
from shadowprice.tables.database import Tables


def snapshot_times(tables: Tables, most: int = 4) -> list[datetime]:
    """Instants to take graph snapshots at: the distinct profile times, thinned to ``most``, first and last kept."""
    with tables.connect() as db:
        rows = db.sql("SELECT DISTINCT epoch_us(snapshot_ts) FROM account ORDER BY 1").fetchall()
    times = np.array([at for (at,) in rows], dtype=np.int64)
    if times.size > most:
        times = times[np.unique(np.linspace(0, times.size - 1, most).round().astype(int))]
    return [pd.Timestamp(at, unit="us", tz="UTC").to_pydatetime() for at in times.tolist()]


def build_snapshot(nodes: pd.DataFrame, edges: pd.DataFrame | Tables | TieSums, at: datetime) -> GraphSnapshot:
    """Build the snapshot of one instant.

    Args:
        nodes: account_id, side and the feature columns (x_*, h_*, c_*) as known at ``at``: one row
            per account and side. Columns that are empty for a side are left out for it.
        edges: the canonical edge table; events after ``at`` are ignored. Of :class:`Tables`, which are read where they
            lie, events are left out whose ends are not nodes of their side; likewise of sums of events until ``at``.
        at: the instant, UTC.

    Raises:
        InvalidInput: an account twice on one side, or a tie to an account that ``nodes`` lacks.
    """
    # Asked for the first places too, numpy sorts by merging: one pass where the table is in order, as it often is.
    account_id, _, node = np.unique(nodes["account_id"].to_numpy(dtype=str), return_index=True, return_inverse=True)
    is_side = np.zeros((len(SIDES), account_id.size), dtype=bool)
    names: dict[Side, tuple[str, ...]] = {}
    features: dict[Side, NDArray[np.float32]] = {}
    for position, side in enumerate(SIDES):
        ours = (nodes["side"] == side).to_numpy(dtype=bool)
        place, own = node[ours], nodes[ours]
        is_side[position, place] = True
        if np.count_nonzero(is_side[position]) < place.size:
            twice = np.zeros(len(nodes), dtype=bool)
            twice[ours] = pd.Series(place).duplicated()
            refuse_rows("nodes.account_id", twice, "an account may stand once per side")
        table = numeric_features(own)
        names[side] = tuple(table.columns)
        matrix = np.full((account_id.size, table.shape[1]), np.nan, dtype=np.float32)
        matrix[place] = table.to_numpy(dtype=np.float32)
        features[side] = matrix
        del ours, place, own, table, matrix
    # The caller may have let go of them: the ties of a large graph take as much memory.
    del nodes, node
    if isinstance(edges, TieSums):
        pairs = pairs_of(edges, account_id, is_side)
    elif isinstance(edges, Tables):
        pairs = pairs_until(edges, account_id, at, is_side)
    else:
        pairs = pairs_until(Tables({"edge": edges}), account_id, at)
    return GraphSnapshot(
        account_id=account_id,
        is_side=is_side,
        names=names,
        features=features,
        edge_index=pairs.ends,
        edge_names=pairs.names,
        edge_features=pairs.features,
        at=at,
    )


def numeric_features(frame: pd.DataFrame, categories: int = 16) -> pd.DataFrame:
    """The feature columns (x_*, h_*, c_*) as float32; a categorical one becomes indicators of its commonest values."""
    parts: dict[str, pd.Series] = {}
    for column in frame.columns:
        if column.startswith(("x_", "h_")):
            if frame[column].notna().any():
                parts[column] = frame[column].astype(np.float32)
        elif column.startswith("c_"):
            values = texts(frame[column])
            for value in values.value_counts().index[:categories]:
                parts[f"{column}={value}"] = (values == value).astype(np.float32)
    return pd.DataFrame(parts, index=frame.index)
