"""Measures the missing seeds of one table, in a process of its own: its memory is given back at the end,
and the code that it has loaded is the code that the figures depend on."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from research.cache import Cache, digests
from research.table import Table
from research.took import Stopwatch
from shadowprice.command.options import main_of
from shadowprice.progress import ProgressBar


def measure(
    name: str,
    module: str,
    seeds: Annotated[list[int], typer.Option()],
    folder: Annotated[Path, typer.Option("--cache")],
    quick: Annotated[bool, typer.Option("--quick")] = False,
) -> None:
    """Measure the seeds."""
    table: Table = import_module(module).TABLE
    cache = Cache(folder, digests())
    first = table.seed_numbers(quick)[0]
    with ProgressBar(f"  {name}", len(seeds), "seed") as shown:
        for seed in seeds:
            watch = Stopwatch()
            rows = table.run(seed, quick)
            figures = table.figures(seed, quick) if table.figures and seed == first else {}
            cache.write(name, seed, quick, rows, watch.took(), module, figures)
            shown.advance()


main = main_of(measure, "python -m research.worker")

if __name__ == "__main__":
    sys.exit(main())
