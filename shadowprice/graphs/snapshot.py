"""A graph snapshot: every account known at one instant, its features, and its ties until then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import SIDES, Side
from shadowprice.errors import InvalidInput

SECONDS_PER_DAY = 86_400.0


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

    def find(self, account_id: Sequence[str] | NDArray[np.str_]) -> NDArray[np.int64]:
        """Node of each account, −1 where the snapshot does not know it."""
        wanted = np.asarray(account_id, dtype=str)
        if not self.nodes:
            return np.full(wanted.size, -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.account_id, wanted), self.nodes - 1)
        return np.where(self.account_id[at] == wanted, at, -1).astype(np.int64)

    def shuffled(self, seed: int) -> GraphSnapshot:
        """The same accounts with the merchant ends of the ties permuted: a graph without information."""
        random = np.random.default_rng(seed)
        index = self.edge_index.copy()
        index[1] = random.permutation(index[1])
        return GraphSnapshot(
            self.account_id,
            self.is_side,
            self.names,
            self.features,
            index,
            self.edge_names,
            self.edge_features,
            self.at,
        )

    def save(self, path: Path) -> None:
        """Write to one ``.npz`` file without pickled objects."""
        sides = {f"{side}.features": self.features[side] for side in self.features}
        names = {f"{side}.names": np.array(self.names[side], dtype=str) for side in self.names}
        np.savez(
            path,
            allow_pickle=False,
            account_id=self.account_id,
            is_side=self.is_side,
            edge_index=self.edge_index,
            edge_names=np.array(self.edge_names, dtype=str),
            edge_features=self.edge_features,
            at=np.array(self.at.isoformat()),
            **sides,
            **names,
        )

    @classmethod
    def load(cls, path: Path) -> GraphSnapshot:
        """Read what :meth:`save` wrote."""
        with np.load(path, allow_pickle=False) as data:
            sides: list[Side] = [side for side in SIDES if f"{side}.features" in data]
            return cls(
                account_id=data["account_id"],
                is_side=data["is_side"],
                names={side: tuple(map(str, data[f"{side}.names"])) for side in sides},
                features={side: data[f"{side}.features"] for side in sides},
                edge_index=data["edge_index"],
                edge_names=tuple(map(str, data["edge_names"])),
                edge_features=data["edge_features"],
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
    if nodes.duplicated(["account_id", "side"]).any():
        rows = np.flatnonzero(nodes.duplicated(["account_id", "side"]))[:5].tolist()
        raise InvalidInput("an account may stand once per side", field="nodes.account_id", rows=rows)
    account_id = np.unique(nodes["account_id"].to_numpy(dtype=str))
    is_side = np.zeros((len(SIDES), account_id.size), dtype=bool)
    names: dict[Side, tuple[str, ...]] = {}
    features: dict[Side, NDArray[np.float32]] = {}
    for position, side in enumerate(SIDES):
        own = nodes[nodes["side"] == side]
        place = np.searchsorted(account_id, own["account_id"].to_numpy(dtype=str))
        is_side[position, place] = True
        table = numeric_features(own)
        names[side] = tuple(table.columns)
        matrix = np.full((account_id.size, table.shape[1]), np.nan, dtype=np.float32)
        matrix[place] = table.to_numpy(dtype=np.float32)
        features[side] = matrix
    pairs = _pairs(edges[edges["ts"] <= pd.Timestamp(at)], at)
    ends = []
    for column in ("src", "dst"):
        wanted = pairs[column].to_numpy(dtype=str)
        place = np.minimum(np.searchsorted(account_id, wanted), max(account_id.size - 1, 0))
        missing = np.flatnonzero(account_id[place] != wanted) if wanted.size else np.zeros(0, dtype=int)
        if missing.size:
            raise InvalidInput(
                f"{missing.size} ties name accounts without a profile at {at.isoformat()}, such as "
                f"{wanted[missing[0]]!r}; add their rows to the account table",
                field=f"edge.{column}",
            )
        ends.append(place)
    edge_table = pairs.drop(columns=["src", "dst"])
    return GraphSnapshot(
        account_id=account_id,
        is_side=is_side,
        names=names,
        features=features,
        edge_index=np.asarray(ends, dtype=np.int64).reshape(2, -1),
        edge_names=tuple(edge_table.columns),
        edge_features=edge_table.to_numpy(dtype=np.float32),
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


def _pairs(edges: pd.DataFrame, at: datetime) -> pd.DataFrame:
    """One row per customer–merchant pair: how often, how much, how recently, mean edge features."""
    extra = [column for column in edges.columns if column.startswith("x_")]
    grouped = edges.groupby(["src", "dst"], sort=True)
    pairs = grouped.agg(
        count=("weight", "size"),
        weight=("weight", "sum"),
        last=("ts", "max"),
        **{name: (name, "mean") for name in extra},
    ).reset_index()
    days = (pd.Timestamp(at) - pairs.pop("last")).dt.total_seconds() / SECONDS_PER_DAY
    pairs["count"] = np.log1p(pairs["count"].astype(float))
    pairs["weight"] = np.log1p(pairs["weight"].astype(float))
    pairs["recency"] = np.log1p(days.astype(float).clip(lower=0))
    return pairs.rename(columns={"count": "log_count", "weight": "log_weight", "recency": "log_days_ago"})
