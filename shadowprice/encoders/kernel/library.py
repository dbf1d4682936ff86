"""The compiled passes, called through ctypes; ``LIBRARY`` is None where they were not built."""

from __future__ import annotations

import ctypes
import os
import warnings
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

VERSION = 1
"""Of the structures of graphs.c and histories.c; graphs.c has it in the name of a function."""

Pointer = ctypes.c_void_p


def _load() -> ctypes.CDLL | None:
    for suffix in EXTENSION_SUFFIXES:
        path = Path(__file__).parent / f"_passes{suffix}"
        if not path.exists():
            continue
        try:
            library = ctypes.CDLL(str(path))
        except OSError:  # built for another machine
            return None
        if not hasattr(library, f"passes_version_{VERSION}"):
            warnings.warn(
                "the compiled passes over voucher graphs were built from other sources and are not used; build them "
                "again: python -c 'from setuptools import setup; setup()' build_ext --inplace",
                RuntimeWarning,
                stacklevel=2,
            )
            return None
        for forth in (library.graphs_forth, library.histories_forth):
            forth.argtypes = [Pointer, ctypes.c_int, ctypes.c_int]
        for back in (library.graphs_back, library.histories_back):
            back.argtypes = [Pointer, Pointer, ctypes.c_int, ctypes.c_int]
        return library
    return None


LIBRARY = _load()
INSTRUCTIONS = LIBRARY.best_instructions() if LIBRARY is not None else 0
"""0 plain C, 1 AVX2, 2 AVX-512."""
IS_COMPILED = LIBRARY is not None and os.environ.get("SHADOWPRICE_KERNEL") != "numpy"


def checked(status: int) -> None:
    """Raise where a pass had no memory."""
    if status:
        raise MemoryError("a pass over voucher graphs")
