"""Levels of all accounts in a file, for answers that are larger than memory."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.population.mapped import advise, open_npy
from shadowprice.allocation.problem.solution import Allocation
from shadowprice.files import whole_file


class LevelFile:
    """An int32 ``.npy`` file (N,) that is there as a whole or not at all."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._draft = ExitStack()
        self._level: NDArray[np.int32] | None = None

    def __enter__(self) -> LevelFile:
        return self

    def __exit__(self, *error: Any) -> None:
        self._draft.__exit__(*error)

    def buffer(self, accounts: int) -> NDArray[np.int32]:
        """The file's entries; what an earlier pass wrote is overwritten."""
        if self._level is None:
            draft = self._draft.enter_context(whole_file(self._path))
            self._level = np.lib.format.open_memmap(draft, mode="w+", dtype=np.int32, shape=(accounts,))
            if hasattr(os, "posix_fallocate"):
                # A full disk is an error now, and not a crash when a page of the map is written.
                with draft.open("r+b") as file:
                    os.posix_fallocate(file.fileno(), 0, draft.stat().st_size)
        return self._level

    def keep(self, allocation: Allocation) -> Allocation:
        """Put the file in its place; the answer's levels are a read-only map of it."""
        level = self.buffer(allocation.level.size)
        if not np.shares_memory(allocation.level, level):
            level[:] = allocation.level
        level.flush()  # type: ignore[attr-defined]
        advise(level, 0, level.size, "DONTNEED")
        self._draft.close()
        self._level = None
        return replace(allocation, level=open_npy(self._path))
