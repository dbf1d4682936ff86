"""A graph snapshot: every account known at one instant, its features, and its ties until then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import SIDES, Side
from shadowprice.checks import refuse_rows
from shadowprice.graphs.pairs import AccountIds, AccountIndex, pairs_until

ARRAYS = ("account_id", "is_side", "edge_index", "edge_features")
"""Fields that are stored as they are."""


@dataclass(frozen=True, eq=False)
class GraphSnapshot:
    """N accounts and E ties at one instant.

    account_id     str (N,), sorted and unique: an account on both sides is one node
    is_side        bool (2, N), in the order of ``SIDES``
    names          feature names of each side
    features       float32 (N, D_side) of each side, NaN where unknown or not of that side
    edge_index     int64 (2, E): customer node, merchant node, one entry per pair
    edge_names     names of the edge features
    edge_features  float32 (E, D_edge)
    at             the instant; nothing later is in here
    """

    account_id: NDArray[np.str_]
    is_side: NDArray[np.bool_]
    names: Mapping[Side, tuple[str, ...]]
    features: Mapping[Side, NDArray[np.float32]]
    edge_index: NDArray[np.int64]
    edge_names: tuple[str, ...]
    edge_features: NDArray[np.float32]
    at: datetime

    @property
    def nodes(self) -> int:
        """Number of accounts."""
        return int(self.account_id.size)

    @property
    def edges(self) -> int:
        """Number of customer–merchant pairs."""
        return int(self.edge_index.shape[1])

    @cached_property
    def accounts(self) -> AccountIndex:
        """Return the node of each account."""
        return AccountIndex(self.account_id)

    def find(self, account_id: AccountIds) -> NDArray[np.int64]:
        """Node of each account, −1 where the snapshot does not know it."""
        return self.accounts.find(account_id)

    def shuffled(self, seed: int) -> GraphSnapshot:
        """Return the snapshot with the merchant ends of the ties permuted: a graph without information."""
        random = np.random.default_rng(seed)
        index = self.edge_index.copy()
        index[1] = random.permutation(index[1])
        return replace(self, edge_index=index)

    def save(self, path: Path) -> None:
        """Write to one ``.npz`` file without pickled objects."""
        arrays = {name: getattr(self, name) for name in ARRAYS}
        for side, features in self.features.items():
            arrays |= {f"{side}.features": features, f"{side}.names": np.array(self.names[side], dtype=str)}
        edge_names, at = np.array(self.edge_names, dtype=str), np.array(self.at.isoformat())
        np.savez(path, allow_pickle=False, edge_names=edge_names, at=at, **arrays)

    @classmethod
    def load(cls, path: Path) -> GraphSnapshot:
        """Read what :meth:`save` wrote."""
        with np.load(path, allow_pickle=False) as data:
            sides: list[Side] = [side for side in SIDES if f"{side}.features" in data]
            return cls(
                **{name: data[name] for name in ARRAYS},
                names={side: tuple(map(str, data[f"{side}.names"])) for side in sides},
                features={side: data[f"{side}.features"] for side in sides},
                edge_names=tuple(map(str, data["edge_names"])),
                at=datetime.fromisoformat(str(data["at"])),
            )


def build_snapshot(nodes: pd.DataFrame, edges: pd.DataFrame, at: datetime) -> GraphSnapshot:
    """Build the snapshot of one instant.

    Args:
        nodes: account_id, side and the feature columns (x_*, h_*, c_*) as known at ``at``: one row
            per account and side. Columns that are empty for a side are left out for it.
        edges: the canonical edge table; events after ``at`` are ignored.
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
    pairs = pairs_until(edges, AccountIndex(account_id), at)
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
            common = frame[column].value_counts().index[:categories]
            for value in common:
                parts[f"{column}={value}"] = (frame[column] == value).astype(np.float32)
    return pd.DataFrame(parts, index=frame.index)
