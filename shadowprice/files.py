"""Writing a file whole or not at all, its checksum, and locking one."""

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_whole(path: str | os.PathLike[str], content: str | bytes, *, durable: bool = False) -> Path:
    """Write a file so that readers see the old content or the new, never a part; make its folder where needed.

    Text is written as UTF-8. Writers of one path do not disturb each other: the last one stays. What is
    ``durable`` is on disk, under its name, before this returns.
    """
    with whole_file(path, durable=durable) as draft:
        draft.write_bytes(content.encode() if isinstance(content, str) else content)
    return Path(path)


@contextmanager
def whole_file(path: str | os.PathLike[str], *, durable: bool = False) -> Iterator[Path]:
    """Path of a draft that gets the name ``path`` when the context ends, and is removed when it raises.

    For a content that does not fit memory; otherwise as :func:`write_whole`. A process that is killed leaves its
    draft, whose name begins with a dot.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(handle)
    draft = Path(name)
    try:
        yield draft
        if durable:
            _sync(draft, os.O_RDWR)
        # mkstemp keeps a file to its owner; other processes of a deployment read these.
        os.chmod(draft, 0o644)
        os.replace(draft, target)
        if durable:
            _sync(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def sha256(path: Path) -> str:
    """Return the checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def lock_file(path: str | os.PathLike[str]) -> int | None:
    """Lock a file, which is made where it is missing, for this process until it ends or closes the descriptor.

    Returns the descriptor, or None where another process has the lock.

    Raises:
        OSError: the file cannot be opened or locked.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return descriptor


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
