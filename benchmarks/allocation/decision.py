"""The decision rule: requests decided a second, one at a time and in batches."""

from functools import partial
from typing import Any

import numpy as np

from benchmarks.cells import Cells
from benchmarks.timing import best, stream_read
from shadowprice.policy import Choices

LEVELS = np.arange(1, 11) * 20


def run(cells: Cells, quick: bool) -> dict[str, Any]:
    """Time decisions at ten levels and one budget."""
    rows = []
    print(f"{'batch':>10} {'us per call':>12} {'decisions/s':>14} {'reads':>8}")
    for batch in (1, 100, 10_000) if quick else (1, 100, 10_000, 1_000_000):
        row = cells.of(f"{batch}", partial(measured, batch))
        rows.append(row)
        print(f"{batch:>10,} {row['seconds'] * 1e6:>12.1f} {row['per_second']:>14,.0f} {row['reads']:>8.0f}")
    return {"decide": rows}


def measured(batch: int) -> dict[str, Any]:
    """A batch of requests, decided again and again."""
    value = np.sort(np.random.default_rng(0).random((LEVELS.size, batch)), axis=0)
    cost = LEVELS[:, None] * value
    ids = [str(number) for number in range(batch)]
    calls = max(1, 2000 // batch)

    def several() -> None:
        for _ in range(calls):
            Choices(value, cost).decide([0.005], 0.5, ids)

    seconds = best(several)[0] / calls
    return {"batch": batch, "seconds": seconds, "per_second": batch / seconds, "reads": seconds / stream_read(value)}
