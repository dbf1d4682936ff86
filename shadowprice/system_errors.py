"""Failures of the system, such as a full disk, as errors of this project with one line of text."""

from __future__ import annotations

import errno
import re
import sqlite3

from shadowprice.errors import NotFound, ShadowpriceError, StorageFailed, Unavailable

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
CLOSED = {errno.EROFS, errno.EACCES, errno.EPERM}
# Libraries that write through code of their own tell it in words.
FULL_WORDS = re.compile(
    r"no space left|disk is full|disk quota|file too large|\d+ requested and \d+ written|file write failed",
    re.IGNORECASE,
)
CLOSED_WORDS = re.compile(r"read-?only (file system|database)|permission denied", re.IGNORECASE)
MEND_FULL = "free some space, or name a folder on another disk"
MEND_CLOSED = "give this user the right to write there, or name another folder"


def deliberate(error: BaseException) -> ShadowpriceError | None:
    """Return what a failure of the system means, with the path and what to do; None for any other error.

    >>> str(deliberate(OSError(28, "No space left on device", "/data/x")))
    '/data/x: the disk is full; free some space, or name a folder on another disk'
    """
    if isinstance(error, ShadowpriceError):
        return error
    number = error.errno if isinstance(error, OSError) else None
    where = f"{error.filename}: " if isinstance(error, OSError) and error.filename is not None else ""
    text = " ".join(str(error).split())
    if number in FULL or FULL_WORDS.search(text):
        return StorageFailed(f"{where}the disk is full; {MEND_FULL}")
    if number in CLOSED or CLOSED_WORDS.search(text):
        return StorageFailed(f"{where or f'{text}: '}cannot be read or written; {MEND_CLOSED}")
    if isinstance(error, FileNotFoundError):
        return NotFound(f"{where}there is no such file or folder; correct its name")
    if isinstance(error, ConnectionError | TimeoutError):
        return Unavailable(f"a service does not answer: {text}")
    if isinstance(error, OSError | sqlite3.OperationalError):
        return StorageFailed(f"{where}{getattr(error, 'strerror', None) or text}")
    return None
