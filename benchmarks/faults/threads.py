"""Threads that run until they are stopped."""

from collections.abc import Callable, Iterable
from threading import Event, Thread


class Threads:
    """Base of what runs in threads until it is stopped."""

    def __init__(self) -> None:
        self._stop = Event()
        self._threads: list[Thread] = []

    def start(self, targets: Iterable[Callable[[], None]]) -> None:
        """Run each target in a thread of its own."""
        self._threads = [Thread(target=target, daemon=True) for target in targets]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let each finish what it does."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
