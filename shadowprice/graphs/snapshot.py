"""A graph snapshot: every account known at one instant, its features, and its ties until then."""

from __future__ import annotations

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
from numpy.typing import NDArray

from shadowprice.campaign import SIDES, Side
from shadowprice.errors import InvalidInput, NotFound
from shadowprice.files import sha256, whole_file, write_whole
from shadowprice.graphs.accounts import AccountIds, AccountIndex
from shadowprice.graphs.adjacency import Adjacency

META = "snapshot.json"
ARRAYS = ("account_id", "is_side", "edge_index", "edge_features")
"""Fields that are stored as they are."""
FOLDER = "folder"
"""Attribute with the folder of a snapshot that was loaded."""
INTO = ("start", "source", "edge")
"""Arrays of the adjacency, which is stored beside them."""


@dataclass(frozen=True, eq=False)
class GraphSnapshot:
    """N accounts and E ties at one instant.

    account_id     str (N,), unique, and sorted when it is built: an account on both sides is one node
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

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A snapshot of files is sent to another process by its folder, which that process maps as well."""
        folder = vars(self).get(FOLDER)
        return super().__reduce_ex__(protocol) if folder is None else (_mapped, (folder,))

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
                "sha256": {name: sha256(draft / f"{name}.npy") for name in arrays},
            }
            (draft / META).write_text(json.dumps(meta, indent=1))
            shutil.rmtree(folder, ignore_errors=True)
            os.replace(draft, folder)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise

    @classmethod
    def load(cls, folder: Path, *, check: bool = True) -> GraphSnapshot:
        """Map what :meth:`save` wrote: an array takes memory as far as it is read.

        Args:
            folder: of the snapshot.
            check: compare the files with their checksums, which reads all of them.

        Raises:
            NotFound: there is no snapshot.
            InvalidInput: a file was altered or is damaged; the message names it.
        """
        if not (folder / META).exists():
            raise NotFound(f"no graph snapshot in {folder}; run `shadowprice job featurize` again")
        meta = json.loads((folder / META).read_text())
        arrays: dict[str, NDArray[Any]] = {}
        for name, digest in meta["sha256"].items():
            path = folder / f"{name}.npy"
            if not path.exists() or (check and sha256(path) != digest):
                fault = "is not the file that was written; run `shadowprice job featurize` again"
                raise InvalidInput(fault, field=str(path))
            arrays[name] = np.load(path, mmap_mode="r", allow_pickle=False)
        sides: list[Side] = [side for side in SIDES if f"features-{side}" in arrays]
        snapshot = cls(
            **{name: arrays[name] for name in ARRAYS},
            names={side: tuple(meta["names"][side]) for side in sides},
            features={side: arrays[f"features-{side}"] for side in sides},
            edge_names=tuple(meta["edge_names"]),
            at=datetime.fromisoformat(meta["at"]),
        )
        # The property is computed once; here it was stored.
        vars(snapshot)["adjacency"] = Adjacency(**{name: arrays[name] for name in INTO})
        vars(snapshot)[FOLDER] = folder.resolve()
        return snapshot


def rename(folder: Path, names: Mapping[str, str]) -> int:
    """Replace identifiers in a snapshot that was saved; nodes keep their places. Return how many were replaced.

    A snapshot whose replacement was interrupted is refused until the same call is made again.
    """
    path, meta = folder / "account_id.npy", json.loads((folder / META).read_text())
    account_id = np.load(path, allow_pickle=False).astype(object)
    rows = {name: np.flatnonzero(account_id == name) for name in names}
    for name, places in rows.items():
        # An account that came back and is erased again has its pseudonym twice; nodes stay unique.
        taken = names[name] in account_id
        account_id[places] = "-".join([names[name], *map(str, places)]) if taken else names[name]
    count = sum(map(len, rows.values()))
    if count:
        with whole_file(path, durable=True) as draft, draft.open("wb") as file:
            np.save(file, account_id.astype(str), allow_pickle=False)
            file.flush()
            meta["sha256"]["account_id"] = sha256(draft)
            # The checksum is first: an array that is there already would hide that it is missing.
            write_whole(folder / META, json.dumps(meta, indent=1), durable=True)
    return count


def _mapped(folder: Path) -> GraphSnapshot:
    return GraphSnapshot.load(folder, check=False)
