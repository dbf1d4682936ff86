"""``python -m benchmarks``: run the benchmarks, print their tables, write ``benchmarks/results/<name>.json``.

``--quick`` runs everything at small sizes (``benchmarks/results/quick``), ``--keep`` takes what an earlier, perhaps
interrupted, run has measured, and ``--write`` puts the figures of the last complete run into
``docs/reference/{benchmarks,capacity,service-performance}.md``.
"""

import json
import sys
from importlib import import_module
from typing import Annotated

import typer

from benchmarks.cells import RESULTS, Cells
from benchmarks.document import TABLES, machine, write
from benchmarks.registry import BENCHMARKS, ON_REQUEST
from shadowprice.command.failures import Misused
from shadowprice.command.options import main_of


def measure(
    names: Annotated[list[str] | None, typer.Argument(help=f"of {', '.join(BENCHMARKS)}")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="small sizes, in benchmarks/results/quick")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="take measurements that are there already")] = False,
    only_write: Annotated[
        bool, typer.Option("--write", help="only write the documents' tables from the results")
    ] = False,
) -> None:
    """Run the benchmarks."""
    if unknown := set(names or ()) - set(BENCHMARKS):
        raise Misused(f"unknown: {', '.join(sorted(unknown))}; choose of {', '.join(BENCHMARKS)}")
    if only_write:
        write(RESULTS)
        return
    for name in names or [benchmark for benchmark in BENCHMARKS if benchmark not in ON_REQUEST]:
        print(f"== {name}", flush=True)
        folder = RESULTS / "quick" if quick else RESULTS
        cells = Cells(folder / f"{name}.json", kept=keep)
        cells.finish(import_module(BENCHMARKS[name]).run(cells, quick=quick))
        found = {name: json.loads(cells.path.read_text())}
        for make in [make for of, make in TABLES.values() if of == name and make is not machine]:
            print(make(found) + "\n")
        print(f"-> {cells.path} ({cells.took:.0f} s)\n", flush=True)


main = main_of(measure, "python -m benchmarks")

if __name__ == "__main__":
    sys.exit(main())
