"""A command's arguments and failures: one line on standard error, or JSON on standard output, and an exit status."""

import errno
import json
import os
import re
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import asdict

from shadowprice.errors import InvalidInput, InvalidTable, NotFound, ShadowpriceError, StorageFailed, Unavailable

AS_JSON = "--json"
MISUSED, INTERRUPTED = 2, 130

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


class Misused(InvalidInput):
    """The arguments of a command are wrong."""


def answer(name: str, work: Callable[[], int], *, failed: int = 1, as_json: bool = False) -> int:
    """Run a command and return its exit status; a failure is told in one line, or as JSON.

    Args:
        name: of the command, which begins the line.
        work: does it and returns the status.
        failed: status of a failure; that of wrong arguments is 2.
        as_json: whether a failure is told as JSON.

    Faults of tables have a line each. An error that is neither deliberate nor one of the system is raised.
    """
    try:
        return work()
    except BrokenPipeError:
        # Who read the output has seen enough; the interpreter would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return failed
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        found = deliberate(error)
        if found is None:
            raise
        tell(name, found, as_json)
        return MISUSED if isinstance(found, Misused) else failed


def tell(name: str, error: ShadowpriceError, as_json: bool = False) -> None:
    """Write an error as :func:`answer` does."""
    if as_json:
        print(json.dumps({"error": as_dict(error)}))
    else:
        print(f"{name}: {error}", file=sys.stderr)


def as_dict(error: ShadowpriceError) -> dict[str, object]:
    """Return the class and the message of an error, and where it has them its field, rows and faults.

    >>> as_dict(InvalidInput("must be at least 1", field="days"))
    {'type': 'InvalidInput', 'message': 'days: must be at least 1', 'field': 'days'}
    """
    told: dict[str, object] = {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, InvalidInput):
        more = {"field": error.field, "rows": list(error.rows)}
        told |= {name: value for name, value in more.items() if value}
    if isinstance(error, InvalidTable) and error.problems:
        told["problems"] = [asdict(problem) for problem in error.problems]
    return told


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
