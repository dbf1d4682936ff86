"""The dual of a campaign over stored curves, as the solve step finds it: in one process, and on Ray actors."""

import os
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.allocation.executors import LEVELS, SHARD, WORKERS, values
from benchmarks.cells import Cells
from benchmarks.child import processor_seconds
from benchmarks.timing import best
from shadowprice.allocation import RayExecutor, solve
from shadowprice.allocation.sources.campaign import CampaignProblem
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.curves import Curves
from shadowprice.on_ray.local import start_ray

REPEATS = 5


def run(cells: Cells, quick: bool) -> dict[str, Any]:
    """A million and ten million requests; two gigabytes of memory and half of one on disk."""
    sizes = (100_000,) if quick else (1_000_000, 10_000_000)
    return {"dual": [cells.of(f"dual {accounts}", partial(dual, accounts)) for accounts in sizes]}


def dual(accounts: int) -> dict[str, Any]:
    """Seconds and CPU seconds of one price: map the file, make the problem, solve it.

    Every solve has a problem of its own, as every hour has its own requests: actors that are running take its shards.
    The CPU time on actors is that of this process and the busiest actor, one after the other.
    """
    import ray

    offered = Campaign(
        name="scale",
        sides={"customer": Terms(levels=tuple(LEVELS.tolist()))},
        budget=Budget(limit=20 * accounts),
        starts_at=datetime(2026, 3, 1, tzinfo=UTC),
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "customer.npy"
        file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(LEVELS.size, accounts))
        for start, value in zip(range(0, accounts, SHARD), values(accounts), strict=True):
            file[:, start : start + SHARD] = value
        file.flush()

        # A third of the accounts has not asked.
        asked = np.random.default_rng(accounts).poisson(1.0, accounts)

        def problem() -> CampaignProblem:
            requests = asked.astype(np.float64)
            curves = Curves(LEVELS, np.load(path, mmap_mode="r"), requests, path)
            return CampaignProblem(offered, {"customer": curves}, {"customer": requests})

        here, here_cpu, found = used(lambda: solve(problem()), time.process_time)
        from_disk = min(cold(lambda: solve(problem()), path) for _ in range(3))
        started = time.perf_counter()
        start_ray(ray, num_cpus=WORKERS + 1, include_dashboard=False)
        ray_start = time.perf_counter() - started
        try:
            with RayExecutor(WORKERS) as executor:
                first, _ = best(lambda: solve(problem(), executor), repeat=1)
                pids = ray.get([actor.__ray_call__.remote(lambda _: os.getpid()) for actor in executor.pool.actors])

                def busiest() -> float:
                    return time.process_time() + max(map(processor_seconds, pids))

                warm, warm_cpu, answer = used(lambda: solve(problem(), executor), busiest)
        finally:
            ray.shutdown()
    return {
        "accounts": accounts,
        "workers": WORKERS,
        "seconds": here,
        "cpu": here_cpu,
        "from_disk_seconds": from_disk,
        "ray_start_seconds": ray_start,
        "first_seconds": first,
        "warm_seconds": warm,
        "warm_cpu": warm_cpu,
        "price_difference": abs(float(answer.prices[0] / found.prices[0]) - 1),
    }


def used(work: Callable[[], Any], clock: Callable[[], float]) -> tuple[float, float, Any]:
    """Least seconds and least CPU seconds of some runs, and the result."""
    seconds, cpu, found = np.inf, np.inf, None
    for _ in range(REPEATS):
        before = clock()
        once, found = best(work, repeat=1)
        seconds, cpu = min(seconds, once), min(cpu, clock() - before)
    return float(seconds), float(cpu), found


def cold(work: Callable[[], Any], path: Path) -> float:
    """Seconds of a run after the system has dropped a file from its cache."""
    os.sync()
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return best(work, repeat=1)[0]
