"""``python -m benchmarks.faults [--count 1000]``: inject, audit; 1 when the audit is not clean."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks.faults.inject import run

RESULT = Path(__file__).parents[1] / "results" / "faults.json"
RECOVERY_SECONDS = 5.0


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description="Inject faults and audit.")
    parser.add_argument("--count", type=int, default=1000)
    found = run(count=parser.parse_args().count)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(found, indent=1))
    counts = ("decisions", "captures", "spent")
    clean = all(not value for each in found.values() for name, value in each["audit"].items() if name not in counts)
    waits = [wait["max"] for each in found.values() for wait in each["recovery_seconds"].values()]
    prompt = max(waits) <= RECOVERY_SECONDS
    print(f"audit {'clean' if clean else 'NOT CLEAN'}; recovery within {RECOVERY_SECONDS:.0f} s: {prompt}")
    return 0 if clean and prompt else 1


if __name__ == "__main__":
    sys.exit(main())
