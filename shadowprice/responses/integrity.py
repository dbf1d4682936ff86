"""Integrity of the files of a model: digests written with it and checked on reading."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shadowprice.errors import InvalidInput, NotFound
from shadowprice.responses.layers.heads import FILE


def file_digests(folder: Path) -> dict[str, str]:
    """File name → SHA-256 of the files that decide: what ``model.json`` keeps under ``files``."""
    return {FILE: hashlib.sha256((folder / FILE).read_bytes()).hexdigest()}


def check_files(folder: Path, expected: Any) -> None:
    """Check the files of :func:`file_digests` against the digests in ``expected``.

    Raises:
        InvalidInput: one was changed, or ``expected`` lacks its digest.
        NotFound: one is missing.
    """
    if not isinstance(expected, Mapping):
        raise InvalidInput("tells no digests of the model's files under 'files'", field=str(folder / "model.json"))
    if not (folder / FILE).exists():
        raise NotFound(f"no {FILE} in {folder}; train a model first")
    for name, digest in file_digests(folder).items():
        if expected.get(name) != digest:
            raise InvalidInput("is not the file that model.json was written with", field=str(folder / name))
