"""The compiled passes, called through ctypes; ``LIBRARY`` is None where they were not built."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from shadowprice.extension import load_extension

VERSION = 2
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


LIBRARY = _load()
INSTRUCTIONS = LIBRARY.best_instructions() if LIBRARY is not None else 0
"""0 plain C, 1 AVX2, 2 AVX-512."""
IS_COMPILED = LIBRARY is not None and os.environ.get("SHADOWPRICE_KERNEL") != "numpy"


def checked(status: int) -> None:
    """Raise where a pass had no memory."""
    if status:
        raise MemoryError("a pass over voucher graphs")
