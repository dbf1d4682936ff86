"""A shard of ``.npy`` files, one for each array, mapped and read in place."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.population.mapped import PAGE, advise, fetch, open_npy
from shadowprice.allocation.population.source import TILE, Arrays
from shadowprice.allocation.sources.memory import MemorySource, gather
from shadowprice.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class NpySource:
    """Files ``<shard>.<array>.npy`` in a folder.

    types  element type and shape (levels, accounts) or (accounts,) that each array must have
    """

    types: Mapping[str, tuple[str, tuple[int, ...]]]
    folder: Path
    shard: str

    def __getstate__(self) -> dict[str, Any]:
        # Another process opens the files itself.
        return {"folder": self.folder, "shard": self.shard, "types": self.types}

    @property
    def name(self) -> str:
        """Path of the file of values."""
        return str(self._path("value"))

    @cached_property
    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays = {}
        for name, (dtype, shape) in self.types.items():
            array = open_npy(self._path(name))
            if array.dtype != np.dtype(dtype) or array.shape != shape:
                raise InvalidInput(
                    f"must be {dtype} of shape {shape}, is {array.dtype} of shape {array.shape}",
                    field=str(self._path(name)),
                )
            # The system's own reading ahead follows one stream, not one for each level.
            advise(array, 0, array.shape[-1], "RANDOM")
            arrays[name] = array
        return arrays

    @property
    def levels(self) -> int:
        """Number of levels J."""
        return self.types["value"][1][0]

    @property
    def accounts(self) -> int:
        """Number of accounts N."""
        return self.types["value"][1][1]

    @property
    def names(self) -> frozenset[str]:
        """Names of the arrays."""
        return frozenset(self.types)

    @property
    def grain(self) -> int:
        """A page of the file."""
        return PAGE // np.dtype(self.types["value"][0]).itemsize

    def tiles(self, names: Collection[str]) -> Iterator[tuple[int, Arrays]]:
        """Views of the files; the next tile is fetched while one is used, and what was used is given back."""
        arrays = {name: self._arrays[name] for name in names}
        width = self._width(arrays)
        stop = min(self.accounts, width)
        self._advise(arrays, 0, stop, "WILLNEED")
        for start in range(0, self.accounts, width):
            stop, after = min(self.accounts, start + width), min(self.accounts, start + 2 * width)
            self._advise(arrays, stop, after, "WILLNEED")
            try:
                yield start, {name: np.asarray(array[..., start:stop]) for name, array in arrays.items()}
            finally:
                self._advise(arrays, start, stop, "DONTNEED")

    def blocks(self, starts: NDArray[np.int64], width: int, names: Collection[str]) -> Arrays:
        """Copies; a page of the file is read for each level of each block."""
        arrays = {name: self._arrays[name] for name in names}
        parts: list[Arrays] = []
        tile = self._width(arrays)
        for begin in range(0, self.accounts, tile):
            here = starts[(starts >= begin) & (starts < begin + tile)]
            if here.size:
                # Many pages at once come sooner than one after the other; most of them, sooner with the rest.
                end = min(self.accounts, begin + tile + width)
                if here.size * self.grain > (end - begin) // 2:
                    self._advise(arrays, begin, end, "WILLNEED")
                else:
                    for array in arrays.values():
                        fetch(array, here, width)
                parts.append({name: gather(np.asarray(array), here, width) for name, array in arrays.items()})
                self._advise(arrays, begin, end, "DONTNEED")
        return {name: np.concatenate([part[name] for part in parts], axis=-1) for name in names}

    def held(self) -> MemorySource:
        """The files' contents in memory."""
        return MemorySource(self.name, {name: np.array(array) for name, array in self._arrays.items()})

    def _width(self, arrays: Arrays) -> int:
        """Accounts of a tile."""
        row_bytes = sum(array.nbytes for array in arrays.values()) // self.accounts
        return max(4096, TILE // max(row_bytes, 1))

    def _path(self, name: str) -> Path:
        return self.folder / f"{self.shard}.{name}.npy"

    @staticmethod
    def _advise(arrays: Arrays, start: int, stop: int, advice: str) -> None:
        if stop > start:
            for array in arrays.values():
                advise(array, start, stop, advice)
