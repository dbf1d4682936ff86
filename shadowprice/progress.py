"""Progress of long work: a line that is rewritten on a terminal, a line every five seconds in a log."""

import sys
import time
from collections.abc import Mapping
from threading import Event, Thread
from typing import Self, TextIO

EVERY = 5.0
"""Seconds between two lines in a log; work that is done sooner writes none."""
REDRAW = 0.5
"""Seconds between two drawings on a terminal."""


class ProgressBar:
    """Show how much is done, the time so far, and an estimate of the time left.

    Args:
        label: what is done, such as ``train joint_gnn``.
        total: units of work in all.
        unit: name of one unit.
        shown: False shows nothing.
        stream: where to; standard error by default.

    The estimate takes the units still to do to be as quick as those done here: what an earlier run did, before it was
    resumed, does not count. It is repeated while a unit takes long. Lines look like
    ``train dnn_h: 12 of 40 epochs, 15 s so far, about 35 s left (validation 0.49)``.

    Example:
        >>> with ProgressBar("publish", 3, "row", shown=False) as progress:
        ...     progress.advance(2, note="customers")
        >>> progress.text()
        'publish: 2 of 3 rows, 0 s so far, about 0 s left (customers)'
    """

    def __init__(self, label: str, total: int, unit: str, *, shown: bool = True, stream: TextIO | None = None) -> None:
        self.label, self.total, self.unit, self.note = label, total, unit, ""
        self.done, self._before, self._advances = 0, 0, 0
        self._shown, self._stream = shown, stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._started = self._begun = self._reached = time.monotonic()
        self._ended = Event()
        self._thread = Thread(target=self._repeat, daemon=True)
        self._written = 0

    def advance(self, units: int = 1, note: str = "") -> None:
        """Count units that were done; ``note`` is shown beside the count until the next one."""
        self.done, self.note, self._reached = self.done + units, note, time.monotonic()
        self._advances += 1

    def reach(self, done: int, note: str = "") -> None:
        """Say how many units are done; the first call, before which others may have worked, starts the estimate."""
        if not self.done:
            self._before, self._begun, self._advances = done, time.monotonic(), -1
        self.advance(done - self.done, note)

    def epoch(self, row: Mapping[str, float]) -> None:
        """Count an epoch of training, given its number, its validation loss and, where known, the most epochs."""
        self.total = int(row.get("epochs", self.total))
        self.reach(int(row["epoch"]) + 1, f"validation {row['validation_loss']:.4f}")

    def text(self) -> str:
        """The line as it stands."""
        elapsed = time.monotonic() - self._started
        line = f"{self.label}: {self.done:,} of {self.total:,} {self.unit}s, {duration(elapsed)} so far"
        mine = self.done - self._before
        if mine and self.done < self.total:
            pace, since = (self._reached - self._begun) / mine, time.monotonic() - self._reached
            # Units that take longer than those before say that the next ones may as well.
            left = (self.total - self.done) * max(pace, since * self._advances / mine) - since
            line += f", about {duration(max(left, 0.0))} left"
        return line + (f" ({self.note})" if self.note else "")

    def __enter__(self) -> Self:
        if self._shown:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._shown:
            self._thread.join()
            if self._written:
                self._write()
                if self._terminal:
                    print(file=self._stream, flush=True)

    def _repeat(self) -> None:
        while not self._ended.wait(REDRAW if self._terminal else EVERY):
            self._write()

    def _write(self) -> None:
        text = self.text()
        if self._terminal:
            print(f"\r{text[:110]:<{min(self._written, 110)}}", end="", file=self._stream, flush=True)
        else:
            print(text, file=self._stream, flush=True)
        self._written = len(text)


class Stages(ProgressBar):
    """Progress of work whose units have names: ``stage("join the features")`` begins the next one.

    Example:
        >>> with Stages("featurize", 2, shown=False) as stage:
        ...     stage("write profiles")
        ...     stage("write interactions")
        >>> stage.done, stage.note
        (1, 'write interactions')
    """

    def __init__(self, label: str, total: int, *, shown: bool = True, stream: TextIO | None = None) -> None:
        super().__init__(label, total, "stage", shown=shown, stream=stream)
        self._any = False

    def __call__(self, name: str) -> None:
        """Begin the stage called ``name``; the one before it is done."""
        if self._any:
            self.advance(note=name)
        self.note, self._any = name, True


def duration(seconds: float) -> str:
    """Seconds in words: ``40 s``, ``12 min``, ``2 h 05 min``.

    Example:
        >>> duration(40.4), duration(725.0), duration(7500.0)
        ('40 s', '12 min', '2 h 05 min')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"
