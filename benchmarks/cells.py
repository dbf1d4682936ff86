"""Measurements kept on disk as soon as each is made, so that an interrupted run continues."""

import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


class Cells:
    """The measurements of one benchmark, by name, in ``path``.

    kept  take what is in the file already instead of measuring it again
    """

    def __init__(self, path: Path, *, kept: bool = False) -> None:
        self.path = path
        self._found: dict[str, Any] = {}
        if kept and path.is_file():
            self._found = json.loads(path.read_text())["cells"]
        self._wanted: dict[str, Any] = {}

    def of(self, name: str, measure: Callable[[], Any], again: Callable[[Any], bool] = lambda _: False) -> Any:
        """The measurement of that name; made and written now where it is not there, or is to be made ``again``."""
        if name not in self._found or again(self._found[name]["found"]):
            started = time.perf_counter()
            found = measure()
            took = time.perf_counter() - started
            self._found[name] = {"found": found, "took": took, "load": os.getloadavg()[0]}
            print(f"{name}: {took:.1f} s", flush=True)
            self._write({"machine": machine(), "cells": self._found})
        self._wanted[name] = self._found[name]
        return self._found[name]["found"]

    def finish(self, summary: dict[str, Any]) -> None:
        self._write({"machine": machine(), **summary, "cells": self._wanted})

    @property
    def took(self) -> float:
        """Seconds that the measurements asked for took, whenever they were made."""
        return float(sum(each["took"] for each in self._wanted.values()))

    def _write(self, content: dict[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".part")
        draft.write_text(json.dumps(content, indent=1))
        os.replace(draft, self.path)


def machine() -> dict[str, Any]:
    processor = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.is_file():
        names = [line.split(":")[1] for line in information.read_text().splitlines() if line.startswith("model name")]
        processor = names[0].strip() if names else processor
    return {"processor": processor, "cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0]}
