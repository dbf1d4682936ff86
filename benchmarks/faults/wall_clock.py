"""A wall clock of one process that can be set wrong while it runs."""

import mmap
import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

SOURCE = Path(__file__).with_name("clock.c")


class WallClock:
    """The wall clock of the processes that are started by :attr:`launcher`; nothing else on the machine is changed.

    Raises:
        FileNotFoundError: there is no C compiler ``cc``.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        compiler = shutil.which("cc")
        if compiler is None:
            raise FileNotFoundError("a clock that can be set wrong needs the C compiler cc")
        library, offset = folder / "clock.so", folder / "offset"
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
        offset.write_bytes(struct.pack("l", 0))
        with offset.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), 0)
        self.launcher: Sequence[str] = ("env", f"LD_PRELOAD={library}", f"FAULT_CLOCK={offset}")

    def set(self, seconds: int) -> None:
        """Let the clock be ``seconds`` ahead; negative is behind, 0 is right."""
        self._page[:] = struct.pack("l", seconds)
