"""Peak memory of a process and of all that it starts."""

import os
from collections import defaultdict
from pathlib import Path
from threading import Event, Thread
from typing import Self

EVERY = 0.2
"""Seconds between two measurements."""
PROC = Path("/proc")
PAGE = os.sysconf("SC_PAGE_SIZE")


class PeakMemory:
    """Measures the memory of a process tree while the context lasts.

    Args:
        process: number of the process at the root; this one by default.

    A page that two processes share counts in both, as in their resident sizes. A peak shorter than :data:`EVERY`
    may be missed. Without ``/proc`` nothing is measured.

    Example:
        >>> with PeakMemory() as peak:
        ...     _ = bytes(1_000_000)
        >>> peak.megabytes is None or peak.megabytes > 1
        True
    """

    def __init__(self, process: int | None = None) -> None:
        self._process = os.getpid() if process is None else process
        self._peak = 0
        self._ended = Event()
        self._thread = Thread(target=self._repeat, daemon=True)

    @property
    def megabytes(self) -> float | None:
        """Largest resident size of the tree so far, in 10⁶ bytes; None where it cannot be measured."""
        return round(self._peak / 1e6, 1) if self._peak else None

    def __enter__(self) -> Self:
        self._measure()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._measure()
        self._ended.set()
        self._thread.join()

    def _repeat(self) -> None:
        while not self._ended.wait(EVERY):
            self._measure()

    def _measure(self) -> None:
        self._peak = max(self._peak, sum(map(resident, tree(self._process))))


def tree(root: int) -> list[int]:
    """Return a process and all that descend from it; nothing where there is no ``/proc``."""
    children: dict[int, list[int]] = defaultdict(list)
    for path in PROC.glob("[0-9]*/stat"):
        try:
            # The name of the program, in brackets, may itself have brackets and blanks.
            parent = int(path.read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        children[parent].append(int(path.parent.name))
    processes, queue = list[int](), [root] if children else []
    while queue:
        process = queue.pop()
        processes.append(process)
        queue += children[process]
    return processes


def resident(process: int) -> int:
    """Resident bytes of a process; 0 where it has ended."""
    try:
        return int((PROC / str(process) / "statm").read_text().split()[1]) * PAGE
    except (OSError, ValueError, IndexError):
        return 0
