"""The compiled passes, called through ctypes; ``LIBRARY`` is None where they were not built."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch._utils import _unflatten_dense_tensors

from shadowprice.errors import InvalidInput
from shadowprice.extension import load_extension

VERSION = 4
"""Of the structures of graphs.c, histories.c and lists.c; graphs.c has it in the name of a function."""

Pointer = ctypes.c_void_p


def _load() -> ctypes.CDLL | None:
    passes = load_extension(Path(__file__).parent, "_passes", f"passes_version_{VERSION}")
    if passes is not None:
        for forth in (passes.graphs_forth, passes.histories_forth):
            forth.argtypes = [Pointer, ctypes.c_int, ctypes.c_int]
        for back in (passes.graphs_back, passes.histories_back):
            back.argtypes = [Pointer, Pointer, ctypes.c_int, ctypes.c_int]
        passes.sessions_list.argtypes = [Pointer]
    return passes


def _team() -> int | None:
    try:  # found among what torch is linked with, under whichever name it was loaded
        return ctypes.cast(ctypes.CDLL(torch._C.__file__).GOMP_parallel, Pointer).value
    except (AttributeError, OSError):
        return None


LIBRARY = _load()
TEAM = _team()
"""Address of GOMP_parallel in the runtime whose threads are torch's: passes compute on them and start none, since two
sets of threads would wait for work on the same cores. None where torch has another kind."""
INSTRUCTIONS = LIBRARY.best_instructions() if LIBRARY is not None else 0
"""0 plain C, 1 AVX2, 2 AVX-512."""
IS_COMPILED = LIBRARY is not None and os.environ.get("SHADOWPRICE_KERNEL") != "numpy"


def checked(status: int) -> None:
    """Raise where a pass had no memory, or was asked for what is not in the log or what came after a collection."""
    if status == -2:
        raise InvalidInput("holds behaviour after the collection, which is not known then", field="target")
    if status == -3:
        raise InvalidInput("has a session or an offer that is not in the log", field="rows")
    if status:
        raise MemoryError("a pass over voucher graphs")


def zeros_like(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Zeros in the shapes of tensors of one type: one piece of memory, cleared once."""
    size = sum(each.numel() for each in tensors)
    # All views in one call: one by one they take longer than zeros one by one.
    return list(_unflatten_dense_tensors(tensors[0].new_zeros(size), tensors))  # type: ignore[no-untyped-call]
