"""The claim of one process on the ledger's file: two ledgers of one file would each spend the same money."""

import os
from contextlib import suppress
from pathlib import Path

from shadowprice.errors import Conflict, Unavailable
from shadowprice.files import lock_file


class Claim:
    """Takes the file ``path`` for this process until it is closed; the file is made where it is missing.

    Two locks hold: one of a file beside it, for its place, and one of the file itself. So a link to the file, or the
    removal of the lock beside it, admits no second ledger.

    Raises:
        Conflict: another process has the file.
        Unavailable: it cannot be opened, or there is no writing beside it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        self._held: list[int] = []
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            for file_name in (f"{self._path}.lock", self._path):
                descriptor = lock_file(file_name)
                if descriptor is None:
                    raise Conflict(f"ledger {path}: another process is writing to it; stop it, or name another")
                self._held.append(descriptor)
            file = os.fstat(self._held[-1])
        except OSError as error:
            self.close()
            raise Unavailable(f"ledger {path}: {error}") from error
        except Conflict:
            self.close()
            raise
        self._file = file.st_dev, file.st_ino

    def check(self) -> None:
        """Raise :class:`Unavailable` where the file is not in its place any more, and what is written would be lost."""
        identity = None
        with suppress(OSError):
            now = os.stat(self._path)
            identity = now.st_dev, now.st_ino
        if identity != self._file:
            raise Unavailable(
                f"the ledger's file {self._path} was moved, removed or replaced while the ledger runs; stop the ledger "
                "and put the file back (docs/how-to/restore.md)"
            )

    def close(self) -> None:
        """Let go of the file."""
        while self._held:
            os.close(self._held.pop())
