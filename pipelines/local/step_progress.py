"""The progress of a pipeline's step, from the lines that its process writes."""

import re
import sys
import time
from threading import Event, Thread

from pipelines.local.finished import KEPT
from shadowprice.progress import EVERY, REDRAW, duration

PROGRESS = re.compile(r"^[^:]+: [\d,]+ of [\d,]+ \w+, .* so far")
"""A line of :class:`shadowprice.progress.ProgressBar`."""


class StepProgress:
    """Show a step from its begin to its end: what it reports itself, or else the time so far.

    Args:
        label: of the step.
        usual: seconds that it took in an earlier run, for an estimate while it reports nothing itself.
    """

    def __init__(self, label: str, usual: float | None = None) -> None:
        self.label, self.usual = label, usual
        self._terminal = sys.stdout.isatty()
        self._started = time.perf_counter()
        self._report, self._reported = "", 0.0
        self._ended = Event()
        self._write(f"{label} …")
        self._thread = Thread(target=self._repeat, daemon=True)
        self._thread.start()

    def told(self, line: str) -> None:
        """Show a line of the step's own progress."""
        self._report, self._reported = line, time.perf_counter()
        if not self._terminal:
            self._write(f"{self.label}: {line}")

    def end(self, status: str = "stopped") -> float:
        """Show the status and return the seconds that the step took; only the first call counts."""
        took = time.perf_counter() - self._started
        if not self._ended.is_set():
            self._ended.set()
            self._thread.join()
            self._write(f"{self.label} {status}" + ("" if status == KEPT else f" in {took:.1f} s"))
            if self._terminal:
                print(flush=True)
        return took

    def _repeat(self) -> None:
        while not self._ended.wait(REDRAW if self._terminal else EVERY):
            now = time.perf_counter()
            # A step that reports writes its own lines; in a log they are not said twice.
            if not self._report or now - self._reported > 2 * EVERY:
                self._write(f"{self.label}: {self._time(now - self._started)}")
            elif self._terminal:
                self._write(f"{self.label}: {self._report}")

    def _time(self, elapsed: float) -> str:
        left = "" if not self.usual else f", about {duration(max(self.usual - elapsed, 0.0))} left by the last run"
        return f"{duration(elapsed)} so far{left}"

    def _write(self, text: str) -> None:
        if self._terminal:
            print(f"\r{text[:118]:<118}", end="", flush=True)
        else:
            print(text, flush=True)
