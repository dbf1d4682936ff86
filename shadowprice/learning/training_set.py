"""A training set on disk: labeled rows of each side, the graph snapshots they refer to, and who is served."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
from numpy.typing import NDArray

from shadowprice.campaign import SIDES, Side
from shadowprice.checks import require_one_of
from shadowprice.files import write_whole
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.responses.inputs import MANIFEST, Inputs, read_manifest

FILE = "training_set.json"
SPLITS = ("train", "validation", "test")
LEARNT_ACCOUNTS = 1_000_000
"""Accounts of each side that a model learns from, at most: a training visits each a few times in all its steps."""
BATCH = 1 << 18
"""Rows read at a time where not all are kept."""
TEXT = pd.StringDtype("pyarrow", na_value=np.nan)
BY_SIDE = ("levels", "context", "confounders", "offers")
"""Fields with a tuple of each side."""


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Inputs of training.

    rows       side → labeled requests: account_id, partner_id, level, response, weight,
               snapshot_at (unix seconds the request was decided), split, and the context columns
    serving    side → the current request of every account that may be served: account_id and, as
               it has them, partner_id, snapshot_at and the context columns
    inputs     what models may read beside rows and requests, such as snapshots of the graph
    levels     side → incentive levels, minor units
    context    side → columns that describe the request rather than the account
    confounders  side → columns of the request whose cells hold the reasons for the level given fixed, the most
               general first; none where levels were randomized
    offers     side → identifiers of its offers, where its levels are numbers of offers and not amounts
    unordered  sides whose levels have no order
    dataset    name of the data set it was made from, empty where unknown
    long_term  figures of the surrogate index that the amounts of customers are, as JSON; empty where they are amounts
    """

    rows: Mapping[Side, pd.DataFrame]
    serving: Mapping[Side, pd.DataFrame]
    inputs: Inputs
    levels: Mapping[Side, tuple[int, ...]]
    context: Mapping[Side, tuple[str, ...]]
    confounders: Mapping[Side, tuple[str, ...]] = field(default_factory=dict)
    offers: Mapping[Side, tuple[str, ...]] = field(default_factory=dict)
    unordered: tuple[Side, ...] = ()
    dataset: str = ""
    long_term: Mapping[str, Any] = field(default_factory=dict)

    @property
    def snapshots(self) -> Sequence[GraphSnapshot]:
        """The graph at successive instants; a row sees the latest one not after it."""
        return self.inputs.snapshots

    def seeing(self, snapshots: Sequence[GraphSnapshot]) -> TrainingSet:
        """Return the set with other snapshots."""
        return replace(self, inputs=replace(self.inputs, snapshots=snapshots))

    def part(self, *splits: str) -> dict[Side, pd.DataFrame]:
        """Rows of every side in the given splits, one split after the other."""
        for split in splits:
            require_one_of(split, SPLITS, "split")
        parts = {side: [rows[rows["split"] == split] for split in splits] for side, rows in self.rows.items()}
        whole = {side: frames[0] if len(frames) == 1 else pd.concat(frames) for side, frames in parts.items()}
        return {side: rows.reset_index(drop=True) for side, rows in whole.items()}

    def newest(self, days: float) -> TrainingSet:
        """Return the set without the test rows that are ``days`` older than the newest row; with 0 days all stay."""
        if not days:
            return self
        newest = max(float(rows["snapshot_at"].max()) for rows in self.rows.values())
        since = newest - days * 86_400.0
        kept = {
            side: rows[(rows["split"] != "test") | (rows["snapshot_at"] >= since)].reset_index(drop=True)
            for side, rows in self.rows.items()
        }
        return replace(self, rows=kept)

    def digest(self) -> str:
        """Digest of everything that training reads: labeled rows, the amounts of their levels, and snapshots."""
        hasher = hashlib.sha256(
            json.dumps({side: list(map(int, level)) for side, level in self.levels.items()}).encode()
        )
        if self.offers:
            hasher.update(json.dumps([dict(self.offers), self.unordered]).encode())
        for table in (*self.rows.values(), *self.inputs.tables()):
            hasher.update(digest_of(table))
        for snapshot in self.snapshots:
            for array in (snapshot.edge_index, snapshot.edge_features, *snapshot.features.values()):
                hasher.update(np.ascontiguousarray(array).tobytes())
        return hasher.hexdigest()

    def seen_by(self, *splits: str) -> Inputs:
        """The inputs with the snapshots that rows of these splits can see: the first, none later than the last row."""
        latest = max(
            (float(rows["snapshot_at"].max()) for split in splits for rows in self.part(split).values() if len(rows)),
            default=-np.inf,
        )
        seen = [snapshot for k, snapshot in enumerate(self.snapshots) if k == 0 or snapshot.at.timestamp() <= latest]
        return replace(self.inputs, snapshots=seen)

    def partner(self, side: Side) -> bool:
        """Return whether requests of a side name an account of the other side."""
        return "partner_id" in self.rows[side] and bool(self.rows[side]["partner_id"].notna().any())

    def save(self, folder: Path) -> None:
        """Write to ``folder``: parquet, a folder per snapshot, and JSON; :meth:`load` is the inverse."""
        folder.mkdir(parents=True, exist_ok=True)
        remove_meta(folder)
        for kind, frames in (("rows", self.rows), ("serving", self.serving)):
            for side, rows in frames.items():
                rows.to_parquet(file_of(folder, kind, side), index=False)
        self.inputs.save(folder)
        write_meta(folder, **{name: getattr(self, name) for name in (*BY_SIDE, "unordered", "dataset", "long_term")})

    @classmethod
    def load(cls, folder: Path, accounts: int = 0) -> TrainingSet:
        """Read a folder that :meth:`save` wrote, or raise :class:`NotFound`; the names of requests are not read.

        ``accounts`` limits, about, the accounts of each side whose labeled rows are read, and with them the memory.
        Whether an account is taken depends on its name alone: its rows stay together, on both sides of the market.
        """
        meta = read_manifest(folder, FILE)
        present: list[Side] = [side for side in SIDES if file_of(folder, "rows", side).exists()]
        served: list[Side] = [side for side in SIDES if file_of(folder, "serving", side).exists()]
        share = {side: accounts / max(_length(file_of(folder, "serving", side)), 1) for side in served if accounts}
        return cls(
            rows={side: _read(file_of(folder, "rows", side), share.get(side, 1.0)) for side in present},
            serving={side: _read(file_of(folder, "serving", side)) for side in served},
            inputs=Inputs.load(folder),
            **{name: {side: tuple(values) for side, values in meta.get(name, {}).items()} for name in BY_SIDE},
            unordered=tuple(meta.get("unordered", ())),
            dataset=meta.get("dataset", ""),
            long_term=meta.get("long_term", {}),
        )


def labeled(folder: Path) -> dict[Side, int]:
    """Number of labeled rows of each side of the training set in ``folder``; no row is read."""
    return {side: _length(file_of(folder, "rows", side)) for side in SIDES if file_of(folder, "rows", side).exists()}


def served_accounts(folder: Path) -> int:
    """Accounts of all sides that the model of the training set in ``folder`` will serve."""
    files = (file_of(folder, "serving", side) for side in SIDES)
    return sum(_length(file) for file in files if file.exists())


def _length(path: Path) -> int:
    return int(pyarrow.parquet.read_metadata(path).num_rows)


def _read(path: Path, share: float = 1.0) -> pd.DataFrame:
    columns = [name for name in pyarrow.parquet.read_schema(path).names if name != "request_id"]
    if share >= 1:
        table = pyarrow.parquet.read_table(path, columns=columns)
    else:
        file, bound = pyarrow.parquet.ParquetFile(path), np.uint64(2**64 * share)
        batches = (
            batch.filter(pyarrow.array(_places(batch["account_id"]) < bound))
            for batch in file.iter_batches(BATCH, columns=columns)
        )
        table = pyarrow.Table.from_batches(batches, file.schema_arrow.empty_table().select(columns).schema)
    # A Python object for every name would take four times the memory of all other columns.
    types = {pyarrow.string(): TEXT}.get
    rows: pd.DataFrame = table.to_pandas(types_mapper=types, split_blocks=True, self_destruct=True)
    return rows


def _places(names: pyarrow.Array) -> NDArray[np.uint64]:
    """Place of each account in [0, 2⁶⁴), the same wherever it is named."""
    hashes = pd.util.hash_array(names.to_numpy(zero_copy_only=False), categorize=False)
    return np.asarray(hashes, dtype=np.uint64)


def file_of(folder: Path, kind: str, side: Side) -> Path:
    """Return the file of the ``rows`` of a side, or of those ``serving``."""
    return folder / f"{kind}-{side}.parquet"


def write_meta(
    folder: Path,
    *,
    levels: Mapping[Side, tuple[int, ...]],
    context: Mapping[Side, tuple[str, ...]],
    confounders: Mapping[Side, tuple[str, ...]],
    offers: Mapping[Side, tuple[str, ...]],
    unordered: Sequence[Side],
    dataset: str,
    long_term: Mapping[str, Any],
) -> None:
    """Write the facts of a training set, last: a folder with rows and inputs alone is no training set."""
    meta = {"levels": levels, "context": context, "confounders": confounders, "offers": offers}
    more = {"unordered": list(unordered), "dataset": dataset, **({"long_term": long_term} if long_term else {})}
    write_whole(folder / FILE, json.dumps({**meta, **more}, indent=1))


def digest_of(table: pd.DataFrame) -> bytes:
    """Digest of the columns and rows of a table, in their order."""
    hasher = hashlib.sha256(json.dumps(table.columns.tolist()).encode())
    hasher.update(pd.util.hash_pandas_object(table, index=False).to_numpy().tobytes())
    return hasher.digest()


def remove_meta(folder: Path) -> None:
    """Remove a training set's facts before its files are written anew, so that an interruption leaves no mixture."""
    for name in (FILE, MANIFEST):
        (folder / name).unlink(missing_ok=True)
