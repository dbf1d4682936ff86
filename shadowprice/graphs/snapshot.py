"""A graph snapshot: every account known at one instant, its features, and its ties until then."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import SIDES, Side
from shadowprice.checks import refuse_rows
from shadowprice.errors import InvalidInput, NotFound
from shadowprice.graphs.adjacency import Adjacency
from shadowprice.graphs.pairs import AccountIds, AccountIndex, pairs_until
from shadowprice.tables.database import Tables

META = "snapshot.json"
ARRAYS = ("account_id", "is_side", "edge_index", "edge_features")
"""Fields that are stored as they are."""
INTO = ("start", "source", "edge")
"""Arrays of the adjacency, which is stored beside them."""


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

    def accounts_of(self, side: Side) -> NDArray[np.str_]:
        """Return the accounts of a side, sorted."""
        return np.asarray(self.account_id[self.is_side[SIDES.index(side)]])

    def find(self, account_id: AccountIds) -> NDArray[np.int64]:
        """Node of each account, −1 where the snapshot does not know it."""
        return self.accounts.find(account_id)

    @cached_property
    def adjacency(self) -> Adjacency:
        """The ties into each node, in both directions."""
        return Adjacency.both_ways(self.edge_index, self.nodes)

    def shuffled(self, seed: int) -> GraphSnapshot:
        """Return the snapshot with the merchant ends of the ties permuted: a graph without information."""
        random = np.random.default_rng(seed)
        index = self.edge_index.copy()
        index[1] = random.permutation(index[1])
        return replace(self, edge_index=index)

    def save(self, folder: Path) -> None:
        """Write to a folder of ``.npy`` files with their checksums; it is there whole or not at all."""
        arrays = {name: getattr(self, name) for name in ARRAYS}
        arrays |= {name: getattr(self.adjacency, name) for name in INTO}
        arrays |= {f"features-{side}": features for side, features in self.features.items()}
        draft = folder.parent / f".{folder.name}.{uuid.uuid4().hex}"
        draft.mkdir(parents=True)
        try:
            for name, array in arrays.items():
                np.save(draft / f"{name}.npy", array, allow_pickle=False)
            meta = {
                "at": self.at.isoformat(),
                "names": dict(self.names),
                "edge_names": self.edge_names,
                "sha256": {name: _digest(draft / f"{name}.npy") for name in arrays},
            }
            (draft / META).write_text(json.dumps(meta, indent=1))
            shutil.rmtree(folder, ignore_errors=True)
            os.replace(draft, folder)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise

    @classmethod
    def load(cls, folder: Path) -> GraphSnapshot:
        """Map what :meth:`save` wrote: an array takes memory as far as it is read.

        Raises:
            NotFound: there is no snapshot.
            InvalidInput: a file was altered or is damaged; the message names it.
        """
        if not (folder / META).exists():
            raise NotFound(f"no graph snapshot in {folder}; run the featurize step again")
        meta = json.loads((folder / META).read_text())
        arrays: dict[str, NDArray[Any]] = {}
        for name, digest in meta["sha256"].items():
            path = folder / f"{name}.npy"
            if not path.exists() or _digest(path) != digest:
                raise InvalidInput("is not the file that was written; run the featurize step again", field=str(path))
            arrays[name] = np.load(path, mmap_mode="r", allow_pickle=False)
        sides: list[Side] = [side for side in SIDES if f"features-{side}" in arrays]
        found = cls(
            **{name: arrays[name] for name in ARRAYS},
            names={side: tuple(meta["names"][side]) for side in sides},
            features={side: arrays[f"features-{side}"] for side in sides},
            edge_names=tuple(meta["edge_names"]),
            at=datetime.fromisoformat(meta["at"]),
        )
        # The property is computed once; here it was stored.
        vars(found)["adjacency"] = Adjacency(**{name: arrays[name] for name in INTO})
        return found


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def build_snapshot(nodes: pd.DataFrame, edges: pd.DataFrame | Tables, at: datetime) -> GraphSnapshot:
    """Build the snapshot of one instant.

    Args:
        nodes: account_id, side and the feature columns (x_*, h_*, c_*) as known at ``at``: one row
            per account and side. Columns that are empty for a side are left out for it.
        edges: the canonical edge table; events after ``at`` are ignored. Of :class:`Tables`, which are read where they
            lie, events are left out whose ends are not nodes of their side.
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
    if isinstance(edges, Tables):
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
            common = frame[column].value_counts().index[:categories]
            for value in common:
                parts[f"{column}={value}"] = (frame[column] == value).astype(np.float32)
    return pd.DataFrame(parts, index=frame.index)
