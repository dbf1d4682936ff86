"""``python -m benchmarks.simulation [--seed 0] [--operations 1000000]``: simulate; 1 where a step is wrong."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import get_args

from benchmarks.simulation.reference import Violation
from benchmarks.simulation.run import Kind, simulate


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation", description="Simulate the path of money.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--operations", type=int, default=1_000_000, help="of all stores together")
    parser.add_argument("--store", choices=get_args(Kind), help="one store alone")
    parser.add_argument("--trace", type=Path, help="file that gets every step")
    given = parser.parse_args()
    kinds: tuple[Kind, ...] = (given.store,) if given.store else get_args(Kind)
    lines: list[str] | None = [] if given.trace else None
    try:
        for kind in kinds:
            found = simulate(given.seed, given.operations // len(kinds), kind, lines=lines)
            print(f"{kind}: {found.operations} operations in {found.seconds:.0f} s, trace {found.trace}")
            print("  " + ", ".join(f"{count} {name}" for name, count in found.counts.most_common()))
    except Violation as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        if lines is not None:
            given.trace.write_text("".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
