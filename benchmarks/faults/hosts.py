"""Another host: a network namespace of its own, and a cable to it that can be pulled."""

import os
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

_NETWORK = "198.18"
"""Addresses set aside for tests of network equipment (RFC 2544): nobody's."""


@dataclass(frozen=True)
class Host:
    """A host beside this one, joined to it by a veth pair.

    address  of the host, as seen from here
    command  what starts a process on it: put before the process's own command
    """

    name: str
    address: str
    command: Sequence[str]

    def pull(self) -> None:
        """Pull the cable at the host's end: what is sent vanishes, nothing is reset."""
        _ip("-n", self.name, "link", "set", "there", "down")

    def plug(self) -> None:
        _ip("-n", self.name, "link", "set", "there", "up")


@contextmanager
def host() -> Iterator[Host]:
    """A host that is gone when the context ends; its processes must have ended before.

    Raises:
        PermissionError: this process may not make one.
        FileNotFoundError: there is no ``ip`` command (Debian: iproute2).
    """
    if os.geteuid() != 0:
        raise PermissionError("only root may make network namespaces")
    mark = uuid.uuid4()
    name, here = f"host-{mark.hex[:8]}", f"v{mark.hex[:8]}"
    place = f"{_NETWORK}.{mark.bytes[4]}"
    first = mark.bytes[5] & 0xFC
    with ExitStack() as undo:
        _ip("netns", "add", name)
        undo.callback(_ip, "netns", "del", name)
        _ip("link", "add", here, "type", "veth", "peer", "name", "there", "netns", name)
        # The pair goes with either end; the namespace keeps its own as long as a process of it runs.
        undo.callback(_ip, "link", "del", here)
        _ip("addr", "add", f"{place}.{first + 1}/30", "dev", here)
        _ip("link", "set", here, "up")
        _ip("-n", name, "addr", "add", f"{place}.{first + 2}/30", "dev", "there")
        for device in ("there", "lo"):
            _ip("-n", name, "link", "set", device, "up")
        yield Host(name, f"{place}.{first + 2}", ("ip", "netns", "exec", name))


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise PermissionError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
