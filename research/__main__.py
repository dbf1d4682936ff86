"""``python -m research``: measure the papers' tables and write ``docs/results/``.

A finished (table, seed) is kept and not measured again unless its code has changed; an interrupted run goes
on where it stopped. Quick mode writes beside the cache, never over the figures of a full run.
"""

import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from research.cache import Cache
from research.index import write_index
from research.registry import TABLES
from research.table import QUICK_SEEDS, ROOT, Table
from research.took import Took
from research.write import rewrite, write
from shadowprice.command.failures import Misused
from shadowprice.command.options import main_of

CACHE = ROOT / "research" / "results"
RESULTS = ROOT / "docs" / "results"


def measure(
    names: Annotated[list[str] | None, typer.Argument(help=f"of {', '.join(TABLES)}; all by default")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help=f"small sizes and {QUICK_SEEDS} seeds, minutes in all")
    ] = False,
    seeds: Annotated[int | None, typer.Option(help="instead of each table's own number")] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="take finished results even where their code has changed")
    ] = False,
    pages: Annotated[
        bool, typer.Option("--rewrite", help="write the pages again from their figures; measure nothing")
    ] = False,
) -> int:
    """Measure the papers' tables."""
    unknown = [name for name in names or () if name not in TABLES]
    if unknown:
        raise Misused(f"no table is named {', '.join(unknown)}; there are {', '.join(TABLES)}")
    chosen = {name: TABLES[name] for name in names or TABLES}
    results = CACHE / "quick" if quick else RESULTS
    if pages:
        for name in chosen:
            rewrite(results, name)
        write_index(results, TABLES)
        return 0
    failed = reproduce(chosen, Cache(CACHE), results, quick=quick, seeds=seeds, stale=keep)
    if results.is_dir():
        write_index(results, TABLES)
    return int(bool(failed))


def reproduce(
    tables: Mapping[str, str],
    cache: Cache,
    results: Path,
    *,
    quick: bool = False,
    seeds: int | None = None,
    stale: bool = False,
) -> list[str]:
    """Measure what is missing, write every table, and return the names of those that failed.

    Args:
        tables: name → module.
        cache: of finished seeds.
        results: where the pages go.
        quick: small sizes.
        seeds: how many, instead of each table's own number.
        stale: take finished results even where their code has changed.
    """
    failed = []
    took: dict[str, Took] = {}
    for number, (name, module) in enumerate(tables.items(), 1):
        before = _spent()
        print(f"[{number}/{len(tables)}] {name}", flush=True)
        table: Table = import_module(module).TABLE
        if reason := table.missing():
            print(f"  skipped: {reason}\n", flush=True)
            continue
        wanted = table.seed_numbers(quick, seeds)
        missing = [seed for seed in wanted if cache.read(name, seed, quick, stale) is None]
        if missing and not _measure(name, module, missing, cache, quick):
            failed.append(name)
            continue
        # Code that was edited while it was measured counts as changed next time, not now.
        found = [result for seed in wanted if (result := cache.read(name, seed, quick, stale=True))]
        summary = table.summary([each["rows"] for each in found])
        figures = {key: svg for each in found for key, svg in each.get("figures", {}).items()}
        print(write(results, name, table, summary, Took.together(found), quick, figures))
        wall, processor = (now - then for now, then in zip(_spent(), before, strict=True))
        took[name] = Took(wall, processor)
        print(f"  {len(missing)} seeds measured in {took[name]}, "
              f"{len(found) - len(missing)} kept -> {results / name}.md\n", flush=True)  # fmt: skip
    if len(took) > 1:
        width = max(map(len, took))
        print("\n".join(f"{name:{width}}  {each}" for name, each in took.items()))
        print(f"{'total':{width}}  {Took.together(map(asdict, took.values()))}", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}; what is finished is kept", file=sys.stderr)
    return failed


def _spent() -> tuple[float, float]:
    """Seconds on the wall, and of processor in the workers that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter(), children.ru_utime + children.ru_stime


def _measure(name: str, module: str, seeds: list[int], cache: Cache, quick: bool) -> bool:
    command = [sys.executable, "-W", "ignore", "-m", "research.worker", name, module]
    command += ["--cache", str(cache.folder), *(["--quick"] if quick else []), *(f"--seeds={seed}" for seed in seeds)]
    done = subprocess.run(command, cwd=ROOT)
    return done.returncode == 0


main = main_of(measure, "python -m research")

if __name__ == "__main__":
    sys.exit(main())
