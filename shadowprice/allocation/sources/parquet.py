"""A shard in one parquet file: a row is an account, a matrix has a column ``<name>_<level index>`` for each level."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.population.sampling import WIDTH
from shadowprice.allocation.population.source import Arrays, Described
from shadowprice.allocation.sources.memory import MemorySource
from shadowprice.errors import InvalidInput, MissingExtra

ROWS = 1 << 16
"""Accounts decoded at a time."""


@dataclass(frozen=True, eq=False)
class ParquetSource(Described):
    """One parquet file. Every pass decodes it, and so does a sample, which falls on all of its row groups."""

    path: Path

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "types": self.types}

    @property
    def name(self) -> str:
        """The file's path."""
        return str(self.path)

    @cached_property
    def _file(self) -> Any:
        file = open_parquet(self.path)
        if file.metadata.num_rows != self.accounts:
            raise InvalidInput(f"must have {self.accounts} rows, has {file.metadata.num_rows}", field=str(self.path))
        present = set(file.schema_arrow.names)
        missing = [column for name in self.types for column in self._columns(name) if column not in present]
        if missing:
            raise InvalidInput(f"columns are missing: {', '.join(missing[:5])}", field=str(self.path))
        return file

    @property
    def grain(self) -> int:
        """Number of accounts that are decoded for any block: all of them."""
        return WIDTH

    def tiles(self, names: Collection[str]) -> Iterator[tuple[int, Arrays]]:
        """Decoded ``ROWS`` accounts at a time."""
        columns = [column for name in names for column in self._columns(name)]
        start = 0
        batches = self._file.iter_batches(batch_size=ROWS, columns=columns, use_threads=False)
        while True:
            try:
                batch = next(batches, None)
            except Exception as error:
                raise InvalidInput(f"cannot be read ({error})", field=str(self.path)) from error
            if batch is None:
                return
            yield start, {name: self._array(batch, name) for name in names}
            start += batch.num_rows

    def blocks(self, starts: NDArray[np.int64], width: int, names: Collection[str]) -> Arrays:
        """Gathered from a whole reading."""
        place = (starts[:, None] + np.arange(width)).ravel()
        parts: list[Arrays] = []
        for start, arrays in self.tiles(names):
            if start > place[-1]:
                break
            stop = start + next(iter(arrays.values())).shape[-1]
            here = place[np.searchsorted(place, start) : np.searchsorted(place, stop)] - start
            if here.size:
                parts.append({name: array[..., here] for name, array in arrays.items()})
        return {name: np.concatenate([part[name] for part in parts], axis=-1) for name in names}

    def held(self) -> MemorySource:
        """The file's contents in memory, decoded."""
        arrays = {name: np.empty(shape, dtype=dtype) for name, (dtype, shape) in self.types.items()}
        for start, tile in self.tiles(self.types):
            for name, array in tile.items():
                arrays[name][..., start : start + array.shape[-1]] = array
        return MemorySource(self.name, arrays)

    def _columns(self, name: str) -> list[str]:
        shape = self.types[name][1]
        return [name] if len(shape) == 1 else [f"{name}_{level}" for level in range(shape[0])]

    def _array(self, batch: Any, name: str) -> NDArray[Any]:
        dtype, shape = self.types[name]
        columns = [batch.column(column) for column in self._columns(name)]
        if any(column.null_count for column in columns):
            raise InvalidInput(f"column of {name!r} has missing entries", field=str(self.path))
        out = np.empty((len(columns), batch.num_rows), dtype=dtype)
        for row, column in zip(out, columns, strict=True):
            row[:] = column.to_numpy(zero_copy_only=False)
        return out if len(shape) == 2 else out[0]


def open_parquet(path: Path) -> Any:
    """The file's reader.

    Raises:
        InvalidInput: it is missing or not a whole parquet file; names it.
        MissingExtra: pyarrow is not installed.
    """
    try:
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise MissingExtra("parquet shards need pyarrow; install shadowprice[tables]") from error
    try:
        return pyarrow.parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)
    except FileNotFoundError:
        raise InvalidInput("there is no such file", field=str(path)) from None
    except Exception as error:
        raise InvalidInput(f"not a whole parquet file ({error})", field=str(path)) from error
