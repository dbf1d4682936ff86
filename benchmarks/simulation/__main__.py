"""``python -m benchmarks.simulation [--seed 0] [--operations 1000000]``: simulate; 1 where a step is wrong."""

import sys
from pathlib import Path
from typing import Annotated, get_args

import typer

from benchmarks.simulation.portfolio import simulate_moves_anew
from benchmarks.simulation.reference import Violation
from benchmarks.simulation.run import StoreKind, simulate
from shadowprice.command.options import main_of

PER_RUN = 1000
"""Operations on one campaign for each run of a coordinator that moves budget between several."""


def run(
    seed: int = 0,
    operations: Annotated[int, typer.Option(help="of all stores together")] = 1_000_000,
    store: Annotated[StoreKind | None, typer.Option(help="one store alone")] = None,
    trace: Annotated[Path | None, typer.Option(help="file that gets every step")] = None,
) -> int:
    """Simulate the path of money."""
    kinds: tuple[StoreKind, ...] = (store,) if store else get_args(StoreKind)
    lines: list[str] | None = [] if trace else None
    try:
        for kind in kinds:
            found = simulate(seed, operations // len(kinds), kind, lines=lines)
            print(f"{kind}: {found.operations} operations in {found.seconds:.0f} s, trace {found.trace}")
            print("  " + ", ".join(f"{count} {name}" for name, count in found.counts.most_common()))
            moved = simulate_moves_anew(seed, operations // len(kinds) // PER_RUN, kind)
            print(f"  moves: {', '.join(f'{count} {name}' for name, count in moved.most_common())}")
    except Violation as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        if trace is not None and lines is not None:
            trace.write_text("".join(lines))
    return 0


main = main_of(run, "python -m benchmarks.simulation")

if __name__ == "__main__":
    sys.exit(main())
