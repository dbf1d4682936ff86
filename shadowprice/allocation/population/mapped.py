"""Arrays in files: pages are read ahead and released, so that a pass needs little memory."""

from __future__ import annotations

import mmap
import os
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.problem.solution import Allocation
from shadowprice.errors import InvalidInput
from shadowprice.files import whole_file

PAGE = mmap.ALLOCATIONGRANULARITY

PATCH = 1 << 20
"""Places between two returns of pages while scattered entries are written."""


def open_npy(path: Path) -> NDArray[Any]:
    """Map a ``.npy`` file, C-contiguous.

    Raises:
        InvalidInput: it is missing, truncated, or no such file; names it.
    """
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise InvalidInput("there is no such file", field=str(path)) from None
    except (ValueError, EOFError, OSError) as error:
        raise InvalidInput(f"not a whole .npy file ({error})", field=str(path)) from error
    if not array.flags.c_contiguous or not array.dtype.isnative:
        raise InvalidInput("must be stored in C order with this machine's byte order", field=str(path))
    return array


def advise(array: NDArray[Any], start: int, stop: int, advice: str) -> None:
    """Advise the system about entries [start, stop) of the last axis; nothing happens for arrays in memory.

    ``advice`` is ``WILLNEED`` (read ahead), ``DONTNEED`` (give the memory back; what was written stays in the file)
    or ``RANDOM`` (no reading ahead unasked).
    """
    memory = _mapping(array)
    code = getattr(mmap, f"MADV_{advice}", None)
    if memory is None or code is None or not hasattr(memory, "madvise"):
        return
    first = array.ctypes.data - np.frombuffer(memory, dtype=np.uint8).ctypes.data
    rows = array.reshape(-1, array.shape[-1])
    for row in range(rows.shape[0]):
        begin = first + row * rows.strides[0] + start * array.itemsize
        end = begin + (stop - start) * array.itemsize
        begin -= begin % PAGE
        if stop < array.shape[-1] and advice == "DONTNEED":
            # The last page also holds what comes next.
            end -= end % PAGE
        if end > begin:
            memory.madvise(code, begin, min(end, len(memory)) - begin)


def fetch(array: NDArray[Any], starts: NDArray[np.int64], width: int) -> None:
    """Ask for the blocks of ``width`` entries of the last axis that begin at ``starts``, all at once."""
    memory = _mapping(array)
    if memory is None or not hasattr(mmap, "MADV_WILLNEED"):
        return
    first = array.ctypes.data - np.frombuffer(memory, dtype=np.uint8).ctypes.data
    rows = array.reshape(-1, array.shape[-1])
    begin = first + np.arange(rows.shape[0])[:, None] * rows.strides[0] + starts * array.itemsize
    end = begin + width * array.itemsize
    begin -= begin % PAGE
    for at, size in zip(begin.ravel().tolist(), (end - begin).ravel().tolist(), strict=True):
        memory.madvise(mmap.MADV_WILLNEED, at, size)


def assign(
    array: NDArray[np.signedinteger[Any]], place: NDArray[np.int64], entries: NDArray[np.signedinteger[Any]]
) -> None:
    """``array[place] = entries`` for ascending places; a mapped array never holds more than a part in memory."""
    if _mapping(array) is None:
        array[place] = entries
        return
    for start in range(0, array.size, PATCH):
        stop = min(array.size, start + PATCH)
        one, other = np.searchsorted(place, [start, stop])
        if other > one:
            array[place[one:other]] = entries[one:other]
            advise(array, start, stop, "DONTNEED")


def _mapping(array: NDArray[Any]) -> mmap.mmap | None:
    """The memory map an array is a view of."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return base if isinstance(base, mmap.mmap) and sys.platform != "win32" else None


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
