"""Faults one after the other under load, and the audit."""

import random
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.faults.audit import Audit, audit
from benchmarks.faults.load import Load, Witness
from benchmarks.faults.stage import staged
from benchmarks.faults.threads import Threads
from serving.client.client import LedgerClient
from shadowprice.errors import ShadowpriceError
from shadowprice.progress import ProgressBar

LIMIT = 40_000
CALLERS = 3
PATIENCE_SECONDS = 30.0
BETWEEN = 20
"""Answers between the end of a fault and the next."""
WEIGHTS = {"ledger killed": 0.3, "redis killed": 1.0, "disk full": 1.0, "lagging replica promoted": 0.3}
"""Weight of each kind of fault in the draw, 3 where none is given: a process starts slower than a network heals."""


@dataclass(frozen=True)
class Result:
    """Injected faults, the waits of the callers for their next answer, and the audit of the ledger."""

    injected: Mapping[str, int]
    recovery_seconds: Mapping[str, list[float]]
    witness: Witness
    audit: Audit


def inject(folder: Path, kind: str, count: int, *, seed: int = 0, kinds: list[str] | None = None) -> Result:
    """``count`` faults on a ledger with a store of ``kind``; the first are one of each."""
    dice = random.Random(seed)
    injected: Counter[str] = Counter()
    recovery: dict[str, list[float]] = {}
    with staged(folder, kind, LIMIT) as stage:
        faults = {name: fault for name, fault in stage.faults().items() if kinds is None or name in kinds}
        weights = [WEIGHTS.get(name, 3.0) for name in faults]
        plan = [*faults, *dice.choices(list(faults), weights, k=max(0, count - len(faults)))][:count]
        watch = _Watch(stage.url)
        load = Load(stage.url, stage.campaign.name, CALLERS)
        try:
            _wait_for_answers(load.witness, time.monotonic(), 5)
            with ProgressBar(f"faults in {kind}", len(plan), "fault") as shown:
                for name in plan:
                    faults[name](dice.uniform(0.05, 0.3))
                    over = time.monotonic()
                    recovery.setdefault(name, []).append(_wait_for_answers(load.witness, over, 1))
                    injected[name] += 1
                    _wait_for_answers(load.witness, over, BETWEEN)
                    shown.advance()
        finally:
            load.stop()
            watch.stop()
            stage.stop_ledger()
        store = stage.open()
        try:
            found = audit(store, stage.campaign, load.witness, watch.highest, stage.log_dir)
        finally:
            store.close()
    return Result(injected, recovery, load.witness, found)


def _wait_for_answers(witness: Witness, since: float, count: int) -> float:
    """Seconds from ``since`` until callers had ``count`` answers; the wait is bounded."""
    while time.monotonic() < since + PATIENCE_SECONDS:
        with witness.lock:
            after = [at for at in witness.successes[-1000:] if at >= since]
        if len(after) >= count:
            return after[count - 1] - since
        time.sleep(0.005)
    return PATIENCE_SECONDS


class _Watch(Threads):
    """Reads the totals again and again and keeps the largest sum of held and spent amounts."""

    def __init__(self, url: str) -> None:
        self.highest = 0
        super().__init__()
        self.start([partial(self._watch, url)])

    def _watch(self, url: str) -> None:
        with LedgerClient(url) as ledger:
            while not self._stop.wait(0.1):
                with suppress(ShadowpriceError):
                    totals = ledger.totals()
                    self.highest = max(self.highest, totals["net_spent"] + totals["outstanding"])
