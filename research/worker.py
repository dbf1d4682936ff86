"""Measures the missing seeds of one table, in a process of its own: its memory is given back at the end,
and the code that it has loaded is the code that the figures depend on."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from research.cache import Cache, digests
from research.table import Table
from research.took import Stopwatch
from shadowprice.progress import ProgressBar


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("module")
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    table: Table = import_module(given.module).TABLE
    cache = Cache(given.cache, digests())
    first = table.seed_numbers(given.quick)[0]
    with ProgressBar(f"  {given.name}", len(given.seeds), "seed") as shown:
        for seed in given.seeds:
            watch = Stopwatch()
            rows = table.run(seed, given.quick)
            figures = table.figures(seed, given.quick) if table.figures and seed == first else {}
            cache.write(given.name, seed, given.quick, rows, watch.took(), given.module, figures)
            shown.advance()


if __name__ == "__main__":
    main()
