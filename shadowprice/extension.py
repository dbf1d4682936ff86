"""C extensions that are called through ctypes, and that a machine may lack."""

from __future__ import annotations

import ctypes
import warnings
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path


def load_extension(folder: Path, name: str, version: str) -> ctypes.CDLL | None:
    """The extension ``name`` of a folder; None where it was not built, or for another machine.

    Args:
        folder: of the package that it belongs to.
        name: of the file, without its suffix.
        version: function that an extension of the present sources has; one without it is not used, with a warning.
    """
    for suffix in EXTENSION_SUFFIXES:
        path = folder / f"{name}{suffix}"
        if not path.exists():
            continue
        try:
            library = ctypes.CDLL(str(path))
        except OSError:  # built for another machine
            return None
        if hasattr(library, version):
            return library
        warnings.warn(
            f"{path.name} was built from other sources and is not used; build it again: "
            "python setup.py build_ext --inplace",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return None
