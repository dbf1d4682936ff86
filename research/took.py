"""Duration and date of a measurement."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self


@dataclass(frozen=True)
class Took:
    """Duration of one seed, or of all seeds of a table.

    seconds    on the wall, which depends on what else the machine did
    processor  seconds of processor, which hardly does; None where it was not taken
    measured   day (UTC) of the measurement, of the last one where there are several; empty where it was not noted
    """

    seconds: float
    processor: float | None = None
    measured: str = ""

    @classmethod
    def together(cls, parts: Iterable[Mapping[str, Any]]) -> Self:
        """Sum up finished results as the cache keeps them."""
        found = list(parts)
        processor = [float(part["processor"]) for part in found if part.get("processor") is not None]
        return cls(
            sum(part["seconds"] for part in found),
            sum(processor) if len(processor) == len(found) else None,
            max((part.get("measured", "") for part in found), default=""),
        )

    def __str__(self) -> str:
        own = "" if self.processor is None else f" ({self.processor:.0f} s of processor)"
        return f"{self.seconds:.0f} s{own}"


class Stopwatch:
    """Runs from when it is made."""

    def __init__(self) -> None:
        self.wall, self.processor = time.perf_counter(), time.process_time()

    def took(self) -> Took:
        """Return the time taken until now, in this process and its threads."""
        day = f"{datetime.now(UTC):%Y-%m-%d}"
        return Took(time.perf_counter() - self.wall, time.process_time() - self.processor, day)
