"""Writing a file whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: str | os.PathLike[str], content: str | bytes, *, durable: bool = False) -> Path:
    """Write a file so that readers see the old content or the new, never a part; make its folder where needed.

    Text is written as UTF-8. Writers of one path do not disturb each other: the last one stays. What is
    ``durable`` is on disk, under its name, before this returns.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        # mkstemp keeps a file to its owner; other processes of a deployment read these.
        os.chmod(draft, 0o644)
        os.replace(draft, target)
        if durable:
            _sync_folder(target.parent)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
    return target


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
