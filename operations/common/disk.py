"""Disk space of long jobs: logged, and checked before anything is written."""

import shutil
from pathlib import Path

from shadowprice.command.failures import MEND_FULL
from shadowprice.errors import StorageFailed

LEAST_TOLD = 100_000_000
"""Smallest need that is logged, bytes."""
RESERVE = 50_000_000
"""Bytes that stay free for logs and other files."""


def require_space(folder: Path, need: float, what: str) -> None:
    """Log the disk space that something needs, and refuse it where less is free.

    Args:
        folder: that it writes to; it may be missing.
        need: bytes, about.
        what: name of what needs it, such as ``register``.

    Raises:
        StorageFailed: the disk has less.
    """
    place = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    free = shutil.disk_usage(place).free
    need_text = f"{what} needs about {size(need)} of disk, and {place} has {size(free)} free"
    if free < need + RESERVE:
        raise StorageFailed(f"{need_text}; {MEND_FULL}")
    if need >= LEAST_TOLD:
        print(need_text, flush=True)


def size(count: float) -> str:
    """Bytes in words.

    >>> size(57e9), size(4_200)
    ('57 GB', '4.2 kB')
    """
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count:.0f} bytes"


def written(folder: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
