"""A problem in a folder of shards, larger than memory if need be.

shards.json              what there is; written last
00000.value.npy  …       one file for each shard and array, C order
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from shadowprice.allocation.population.source import Arrays, Resources, Source
from shadowprice.allocation.sources.npy import NpySource
from shadowprice.documents import read_json
from shadowprice.errors import InvalidInput
from shadowprice.files import write_whole

MANIFEST = "shards.json"
NAME = r"[A-Za-z][A-Za-z0-9-]*"


class StoredProblem:
    """An allocation problem whose arrays are files, as :func:`write_shards` and :class:`ShardWriter` leave them.

    Args:
        folder: the folder.
        resources: the limits. A sequence where they are made of levels and the value alone; otherwise a function of
            the stored arrays of some accounts: ``lambda a: [Resource.total("budget", a["cost"], 1e6, a["north"])]``.
            Every form that a problem in memory takes is taken; members are stored as booleans.

    The files are mapped: they must not change while they are read.

    Raises:
        InvalidInput: no readable ``shards.json``. Shards are opened when they are read: one that is missing,
            truncated or of another type than listed is an error that names the file.
    """

    def __init__(self, folder: str | Path, resources: Resources) -> None:
        self.folder = Path(folder).resolve()
        self.resources = resources
        path = self.folder / MANIFEST
        try:
            self._written = path.stat().st_mtime_ns
            listed = read_json(path)
            levels, arrays = int(listed["levels"]), dict(listed["arrays"])
            shards = [(str(shard["name"]), int(shard["accounts"])) for shard in listed["shards"]]
        except FileNotFoundError:
            raise InvalidInput("there is no such file; write_shards makes one", field=str(path)) from None
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInput(f"not a list of shards ({error!r})", field=str(path)) from error
        if "value" not in arrays or not shards:
            raise InvalidInput("must list shards with a value", field=str(path))
        self.accounts = sum(count for _, count in shards)
        self._shards: list[Source] = []
        for shard, count in shards:
            types = {
                name: (kept["type"], (levels, count) if kept["matrix"] else (count,)) for name, kept in arrays.items()
            }
            self._shards.append(NpySource(types, self.folder, shard))

    @property
    def identity(self) -> object:
        """The folder as it was written."""
        return self.folder, self._written

    def shards(self, count: int) -> Sequence[Source]:  # noqa: ARG002
        """The shards as they are stored."""
        return self._shards


class ShardWriter:
    """Writes a folder of shards that is there as a whole or not at all: ``with ShardWriter(folder) as writer: …``.

    Raises:
        InvalidInput: the folder exists, or shards that do not fit together.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if self.folder.exists():
            raise InvalidInput("exists already; choose another or remove it", field=str(self.folder))
        self._arrays: dict[str, dict[str, Any]] = {}
        self._levels = 0
        self._shards: list[dict[str, Any]] = []
        self._draft: Path | None = None

    def __enter__(self) -> ShardWriter:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self._draft = Path(tempfile.mkdtemp(dir=self.folder.parent, prefix=f".{self.folder.name}."))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._draft is not None
        try:
            if kind is None:
                listed = {"levels": self._levels, "arrays": self._arrays, "shards": self._shards}
                write_whole(self._draft / MANIFEST, json.dumps(listed, indent=1))
                os.chmod(self._draft, 0o755)
                os.rename(self._draft, self.folder)
        finally:
            shutil.rmtree(self._draft, ignore_errors=True)

    def append(self, arrays: Arrays) -> None:
        """Write one more shard: ``value`` (J, n) floating, and other matrices (J, n) or vectors (n,) by name."""
        assert self._draft is not None, "use it in a with statement"
        own = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        value = own.get("value")
        if value is None or value.ndim != 2 or value.size == 0:
            raise InvalidInput("must have shape (levels, accounts) and not be empty", field="value")
        for name, array in own.items():
            if not re.fullmatch(NAME, name):
                raise InvalidInput("must be letters, digits or '-', the first a letter", field=f"name {name!r}")
            if array.shape not in (value.shape, value.shape[1:]):
                raise InvalidInput(f"must have shape {value.shape} or {value.shape[1:]}, got {array.shape}", field=name)
            wanted = (np.float32, np.float64) if name != "allowed" and array.ndim == 2 else (np.bool_,)
            if array.dtype not in wanted and array.ndim == 2:
                raise InvalidInput(f"must be {' or '.join(np.dtype(t).name for t in wanted)}", field=name)
            if array.dtype.kind not in "fiub":
                raise InvalidInput(f"must be of numbers or booleans, got {array.dtype}", field=name)
        types = {name: {"type": array.dtype.name, "matrix": array.ndim == 2} for name, array in own.items()}
        if self._shards and (types != self._arrays or value.shape[0] != self._levels):
            raise InvalidInput(
                f"every shard needs the same arrays, {self._levels} levels of {self._arrays}; got {types}",
                field=f"shard {len(self._shards)}",
            )
        self._arrays, self._levels = types, int(value.shape[0])
        shard = f"{len(self._shards):05d}"
        for name, array in own.items():
            np.save(self._draft / f"{shard}.{name}.npy", array)
        self._shards.append({"name": shard, "accounts": int(value.shape[1])})


def write_shards(folder: str | Path, shards: Iterable[Arrays]) -> Path:
    """Write a folder of shards from arrays, one mapping for each shard, whole or not at all.

    Memory: one shard, when ``shards`` makes them one by one.

    Raises:
        InvalidInput: the folder exists, there is no shard, or shards do not fit together.
    """
    with ShardWriter(folder) as writer:
        for arrays in shards:
            writer.append(arrays)
        if not writer._shards:
            raise InvalidInput("there is no shard to write", field="shards")
    return Path(folder)
