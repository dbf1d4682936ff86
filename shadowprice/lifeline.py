"""Processes that end with the one that started them, however that one ends.

The parent holds the open end of a pipe; it closes when the parent ends, even when it was killed.
"""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from functools import partial
from threading import Thread
from typing import Any

LIFELINE = "SHADOWPRICE_LIFELINE"
"""Environment variable with the descriptor of the pipe's other end."""
GRACE_SECONDS = 5.0
"""Time that a process has to end by itself before it is killed."""
_KEPT: list[int] = []


class Child(subprocess.Popen[Any]):
    """A process that ends when this one does; its program calls :func:`end_with_parent` first of all.

    Arguments are those of ``subprocess.Popen``.
    """

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        theirs, self._ours = os.pipe()
        try:
            environment = {**(options.pop("env", None) or os.environ), LIFELINE: str(theirs)}
            super().__init__(command, env=environment, pass_fds=(theirs, *_KEPT), **options)
        except BaseException:
            os.close(self._ours)
            self._ours = -1
            raise
        finally:
            os.close(theirs)

    def __del__(self) -> None:
        super().__del__()
        if getattr(self, "_ours", -1) >= 0:
            os.close(self._ours)
            self._ours = -1


def keep_open(descriptor: int) -> None:
    """Hand a descriptor to each later :class:`Child`: a lock on its file lasts until the last of them has ended."""
    _KEPT.append(descriptor)


def end_with_parent(*, group: bool = False) -> None:
    """Have this process end when the one that started it as :class:`Child` does; nothing where there was none.

    Args:
        group: give this process a group of its own, and end all of that: what it has started ends too.
    """
    number = os.environ.pop(LIFELINE, "")
    if not number:
        return
    os.set_inheritable(int(number), False)
    if group:
        os.setpgid(0, 0)
    Thread(target=_wait, args=(int(number), group), name="lifeline", daemon=True).start()


def _wait(number: int, group: bool) -> None:
    while os.read(number, 1):  # nothing is ever written: it returns at the end alone
        pass
    end = partial(os.killpg, 0) if group else partial(os.kill, os.getpid())
    end(signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    end(signal.SIGKILL)
