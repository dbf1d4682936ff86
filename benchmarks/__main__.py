"""``python -m benchmarks``: run the benchmarks, print their tables, write ``benchmarks/results/<name>.json``."""

from __future__ import annotations

import argparse
import json
import platform
from importlib import import_module
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
BENCHMARKS = ("allocation", "limits", "decision", "demands", "executors")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Run the benchmarks.")
    parser.add_argument("names", nargs="*", default=BENCHMARKS, help=f"of {', '.join(BENCHMARKS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes, under a minute")
    given = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    for name in given.names:
        print(f"== {name}")
        found = import_module(f"benchmarks.{name}").run(quick=given.quick)
        path = RESULTS / f"{name}.json"
        path.write_text(json.dumps({"machine": platform.processor() or platform.machine(), **found}, indent=1))
        print(f"-> {path}\n")


if __name__ == "__main__":
    main()
