"""Honest callers of the predictor beside four hostile ones: ``python -m benchmarks hostile``.

For each attack the honest load runs alone and under the attack, in turns. The attackers run on the same machine at the
lowest priority, so that it is the services that are measured and not the attackers' own work.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cells import Cells
from benchmarks.service.deployment import Running, port_of, serving
from benchmarks.service.load import generate

ACCOUNTS = 2000
CONNECTIONS = 8
SHARE, SLOWER = 0.8, 3.0
"""Goals: at least this share of the throughput is kept, and p99 is at most so many times as long."""
ATTACKS = {
    "conflicting requests": "predictor",
    "hostile bodies": "ledger",
    "half-open connections": "ledger",
    "half-open connections at the predictor": "predictor",
    "hostile bodies at the predictor": "predictor",
}
"""Attack → the service that it is aimed at."""


def run(cells: Cells, quick: bool) -> dict[str, Any]:
    """Every attack; returns medians over the turns."""
    seconds, turns = (1.0, 1) if quick else (5.0, 3)
    found: dict[str, Any] = cells.of(f"{seconds}-{turns}", partial(measured, seconds, turns))
    for name, each in found.items():
        kept, slower = each["throughput"], each["p99"]
        verdict = "met" if kept >= SHARE and slower <= SLOWER and not each["refused"] else "MISSED"
        print(f"{name:40} throughput {kept:.2f} of alone, p99 {slower:.2f} times, refused {each['refused']}: {verdict}")
    return found


def measured(seconds: float, turns: int) -> dict[str, Any]:
    """Ratios under each attack to the load alone."""
    found: dict[str, Any] = {}
    serial = 0
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder), ACCOUNTS, with_trivial=False) as running:

        def honest() -> dict[str, Any]:
            nonlocal serial
            each = generate(
                port=port_of(running.predictor), protocol="v1", batch=1, connections=CONNECTIONS, seconds=seconds,
                serial=serial, accounts=ACCOUNTS,
            )  # fmt: skip
            serial = each["serial"]
            return each

        honest()
        for name, service in ATTACKS.items():
            pairs = []
            for _ in range(turns):
                alone = honest()
                with attacked(running, name, service, seconds + 2):
                    pairs.append((alone, honest()))
            found[name] = {
                "throughput": float(np.median([under["per_second"] / alone["per_second"] for alone, under in pairs])),
                "p99": float(np.median([under["p99_ms"] / alone["p99_ms"] for alone, under in pairs])),
                "refused": sum(under["refused"] for _, under in pairs),
            }
    return found


@contextmanager
def attacked(running: Running, name: str, service: str, seconds: float) -> Iterator[None]:
    """Attack one service meanwhile."""
    url = getattr(running, service).url
    arguments = [name.removesuffix(" at the predictor"), url, "spring", str(seconds)]
    with subprocess.Popen([sys.executable, "-m", "benchmarks.faults.hostile", *arguments]) as attackers:
        try:
            yield
        finally:
            attackers.wait(60)
