"""``python -m benchmarks.faults [--count 1000]``: inject, audit; 1 when the audit is not clean."""

import json
import statistics
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from benchmarks.cells import RESULTS
from benchmarks.faults.inject import inject
from shadowprice.command.options import main_of

RECOVERY_SECONDS = 5.0


def run(count: int = 1000) -> int:
    """Inject faults, half of them on each kind of store, and audit."""
    found = {}
    clean, prompt = True, True
    for kind in ("sqlite", "redis"):
        with tempfile.TemporaryDirectory() as scratch:
            result = inject(Path(scratch), kind, count // 2)
        waits = {name: (statistics.median(s), max(s)) for name, s in result.recovery_seconds.items()}
        found[kind] = {
            "injected": dict(result.injected),
            "recovery_seconds": {name: {"median": middle, "max": most} for name, (middle, most) in waits.items()},
            "answers": len(result.witness.successes),
            "unavailable": result.witness.unavailable,
            "refused": dict(result.witness.refused),
            "audit": asdict(result.audit),
        }
        print(f"{kind}: {sum(result.injected.values())} faults, {len(result.witness.successes)} answers")
        for name, (middle, most) in waits.items():
            print(f"  {name:16} {result.injected[name]:5} ×  recovery median {middle:.3f} s, most {most:.3f} s")
        print("  " + "  ".join(f"{name} {value}" for name, value in asdict(result.audit).items()))
        clean &= result.audit.clean
        prompt &= max(most for _, most in waits.values()) <= RECOVERY_SECONDS
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "faults.json").write_text(json.dumps(found, indent=1))
    print(f"audit {'clean' if clean else 'NOT CLEAN'}; recovery within {RECOVERY_SECONDS:.0f} s: {prompt}")
    return 0 if clean and prompt else 1


main = main_of(run, "python -m benchmarks.faults")

if __name__ == "__main__":
    sys.exit(main())
