"""The engine on accounts in memory, in files and on Ray actors: seconds of a solve."""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cells import Cells
from benchmarks.timing import best
from shadowprice.allocation import Problem, RayExecutor, Resource, StoredProblem, on_response, solve, write_shards
from shadowprice.on_ray.local import start_ray

LEVELS = np.arange(1, 11) * 20
SHARD = 1_000_000
WORKERS = 2


def values(accounts: int) -> Iterator[np.ndarray]:
    """Rising random curves (J, n), a shard at a time."""
    for seed, start in enumerate(range(0, accounts, SHARD)):
        n = min(SHARD, accounts - start)
        value = np.random.default_rng(seed).random((LEVELS.size, n), dtype=np.float32)
        value.sort(axis=0)
        yield value


def run(cells: Cells, quick: bool) -> dict[str, Any]:
    """The full mode takes a minute, 3 GB of disk and 3 GB of memory."""
    sizes = (100_000,) if quick else (100_000, 1_000_000, 10_000_000)
    return {"executors": [cells.of(f"{accounts}", partial(measured, accounts)) for accounts in sizes]}


def measured(accounts: int) -> dict[str, Any]:
    """Seconds of the fastest solve of several in each place; actors hold their shards from the first one on."""
    import ray

    budget = [Resource.total("budget", on_response(LEVELS), 20.0 * accounts)]
    problem = Problem(np.concatenate(list(values(accounts)), axis=1), budget)
    here, found = best(partial(solve, problem), repeat=5)
    start_ray(ray, num_cpus=WORKERS + 1, include_dashboard=False)
    try:
        with RayExecutor(WORKERS) as executor:
            first, _ = best(partial(solve, problem, executor), repeat=1)
            actors, answer = best(partial(solve, problem, executor), repeat=7)
    finally:
        ray.shutdown()
    with tempfile.TemporaryDirectory() as folder:
        shards = write_shards(Path(folder) / "shards", ({"value": value} for value in values(accounts)))
        mapped = partial(solve, StoredProblem(shards, budget), level_path=Path(folder) / "level.npy")
        files, _ = best(mapped, repeat=3)
    same = bool(answer.prices[0] == found.prices[0]) and not np.count_nonzero(answer.level != found.level)
    row = {"accounts": accounts, "seconds": here, "actors": actors, "first": first, "files": files, "same": same}
    print("  ".join(f"{name} {value:.3g}" for name, value in row.items()))
    return row
