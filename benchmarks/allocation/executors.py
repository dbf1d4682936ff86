"""Accounts in files and on Ray actors: against reading the same bytes once."""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cells import Cells
from benchmarks.timing import best, stream_read
from shadowprice.allocation import (
    Problem,
    RayExecutor,
    Resource,
    StoredProblem,
    on_response,
    solve,
    write_shards,
)

LEVELS = np.arange(1, 11) * 20
SHARD = 1_000_000


def values(accounts: int) -> Iterator[np.ndarray]:
    """Rising random curves (J, n), a shard at a time."""
    for seed, start in enumerate(range(0, accounts, SHARD)):
        n = min(SHARD, accounts - start)
        value = np.random.default_rng(seed).random((LEVELS.size, n), dtype=np.float32)
        value.sort(axis=0)
        yield value


def budget(accounts: int, each: float = 20.0) -> list[Resource]:
    """Budget of that much money per account, paid on response."""
    return [Resource.total("budget", on_response(LEVELS), each * accounts)]


def read_files(folder: Path) -> int:
    """Read every byte of a folder once into a buffer that is used again."""
    buffer, total = bytearray(1 << 20), 0
    for path in sorted(folder.iterdir()):
        with path.open("rb", buffering=0) as file:
            while count := file.readinto(buffer):
                total += count
    return total


def forget(folder: Path) -> None:
    """Ask the system to drop the files from its cache, so that the next read comes from the disk."""
    os.sync()
    for path in folder.iterdir():
        handle = os.open(path, os.O_RDONLY)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def timed(work: Callable[[], Any], forgotten: Path | None) -> float:
    """Seconds of the fastest of three runs, each from a cold folder if one is given."""
    seconds = np.inf
    for _ in range(3):
        if forgotten is not None:
            forget(forgotten)
        seconds = min(seconds, best(work, repeat=1)[0])
    return float(seconds)


def stored(accounts: int, folder: Path) -> list[dict[str, Any]]:
    """A solve from files against reading the same files, from the system's cache and from the disk."""
    rows = []
    path = write_shards(folder / "shards", ({"value": value} for value in values(accounts)))
    for cached in (True, False):
        problem, level = StoredProblem(path, budget(accounts)), folder / "level.npy"
        found = solve(problem)
        near = float(found.prices[0]) * 1.001
        works = (
            partial(solve, problem, level_path=level),
            partial(solve, problem, level_path=level, near=near),
            partial(read_files, path),
        )
        seconds, warm, read = (timed(work, None if cached else path) for work in works)
        size = sum(each.stat().st_size for each in path.iterdir())
        rows.append(
            {
                "accounts": accounts,
                "bytes": size,
                "cached": cached,
                "seconds": seconds,
                "warm_start_seconds": warm,
                "read_seconds": read,
                "reads": seconds / read,
                "warm_start_reads": warm / read,
                "gap": found.gap,
                "passes": found.passes,
            }
        )
        print(
            f"{'cache' if cached else 'disk':>6} {accounts:>12,} {size / seconds / 1e9:>8.2f} GB/s"
            f" {seconds / read:>7.2f} {warm / read:>7.2f}"
        )
    return rows


def actors(sizes: tuple[int, ...], workers: tuple[int, ...]) -> list[dict[str, Any]]:
    """One process against Ray actors that hold their shards, solve after solve."""
    import ray

    started = time.perf_counter()
    ray.init(num_cpus=max(workers) + 1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    rows: list[dict[str, Any]] = [{"ray_init_seconds": time.perf_counter() - started}]
    print(f"ray.init {rows[0]['ray_init_seconds']:.1f} s")
    try:
        for accounts in sizes:
            value = np.concatenate(list(values(accounts)), axis=1)
            problem = Problem(value, budget(accounts))
            read = stream_read(value)
            here, found = best(partial(solve, problem), repeat=5)
            for count in workers:
                with RayExecutor(workers=count) as executor:
                    first, _ = best(partial(solve, problem, executor), repeat=1)
                    again, answer = best(partial(solve, problem, executor), repeat=7)
                    empty, _ = best(partial(ask_nothing, executor), 20)
                    rows.append(
                        {
                            "accounts": accounts,
                            "workers": count,
                            "read_seconds": read,
                            "in_process_seconds": here,
                            "first_seconds": first,
                            "seconds": again,
                            "rounds": executor.rounds,
                            "empty_round_seconds": empty,
                            "same_price": bool(answer.prices[0] == found.prices[0]),
                            "different_levels": int(np.count_nonzero(answer.level != found.level)),
                        }
                    )
                print(
                    f"   actors {accounts:>12,} x {count} {again * 1e3:>9.1f} ms, in process {here * 1e3:>9.1f} ms, "
                    f"{rows[-1]['rounds']} rounds, an empty one {empty * 1e3:.1f} ms, first solve {first:.1f} s"
                )
            del value, problem
    finally:
        ray.shutdown()
    return rows


def nothing(_: object) -> None:
    """Question of an empty round."""


def ask_nothing(executor: RayExecutor) -> None:
    """Put the empty question to all actors."""
    import ray

    ray.get([actor.__ray_call__.remote(nothing) for actor in executor.pool.actors])


def run(cells: Cells, quick: bool) -> dict[str, Any]:
    """Both; the full mode takes some minutes, 3 GB of disk and 3 GB of memory."""
    print(f"{'from':>6} {'accounts':>12} {'speed':>13} {'reads':>7} {'warm':>7}")
    accounts = 1_000_000 if quick else 10_000_000

    def files() -> list[dict[str, Any]]:
        with tempfile.TemporaryDirectory() as folder:
            return stored(accounts, Path(folder))

    sizes = (100_000, 1_000_000) if quick else (100_000, 1_000_000, 10_000_000)
    return {
        "stored": cells.of("files", files),
        "actors": cells.of("actors", partial(actors, sizes, (1, 2))),
    }
