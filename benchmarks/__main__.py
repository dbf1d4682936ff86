"""``python -m benchmarks``: run the benchmarks, print their tables, write ``benchmarks/results/<name>.json``.

``--quick`` runs everything at small sizes (``benchmarks/results/quick``), ``--keep`` takes what an earlier, perhaps
interrupted, run has measured, and ``--write`` puts the figures of the last complete run into
``docs/reference/{benchmarks,capacity,service-performance}.md``.
"""

from __future__ import annotations

import argparse
from importlib import import_module

from benchmarks.cells import RESULTS, Cells
from benchmarks.document import write
from benchmarks.registry import BENCHMARKS, ON_REQUEST


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Run the benchmarks.")
    usual = [name for name in BENCHMARKS if name not in ON_REQUEST]
    parser.add_argument("names", nargs="*", default=usual, metavar="NAME", help=f"of {', '.join(BENCHMARKS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes, in benchmarks/results/quick")
    parser.add_argument("--keep", action="store_true", help="take measurements that are there already")
    parser.add_argument("--write", action="store_true", help="only write the documents' tables from the results")
    given = parser.parse_args()
    if unknown := set(given.names) - set(BENCHMARKS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose of {', '.join(BENCHMARKS)}")
    for name in given.names if not given.write else ():
        print(f"== {name}", flush=True)
        folder = RESULTS / "quick" if given.quick else RESULTS
        cells = Cells(folder / f"{name}.json", kept=given.keep)
        cells.finish(import_module(BENCHMARKS[name]).run(cells, quick=given.quick))
        print(f"-> {cells.path} ({cells.took:.0f} s)\n", flush=True)
    if given.write:
        write(RESULTS)


if __name__ == "__main__":
    main()
