"""``python -m benchmarks.faults [--count 1000]``: inject, audit; 1 when the audit is not clean."""

import json
import sys
from pathlib import Path

from benchmarks.faults.inject import run
from shadowprice.command.options import main_of

RESULT = Path(__file__).parents[1] / "results" / "faults.json"
RECOVERY_SECONDS = 5.0


def inject(count: int = 1000) -> int:
    """Inject faults and audit."""
    found = run(count=count)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(found, indent=1))
    counts = ("decisions", "captures", "spent")
    clean = all(not value for each in found.values() for name, value in each["audit"].items() if name not in counts)
    waits = [wait["max"] for each in found.values() for wait in each["recovery_seconds"].values()]
    prompt = max(waits) <= RECOVERY_SECONDS
    print(f"audit {'clean' if clean else 'NOT CLEAN'}; recovery within {RECOVERY_SECONDS:.0f} s: {prompt}")
    return 0 if clean and prompt else 1


main = main_of(inject, "python -m benchmarks.faults")

if __name__ == "__main__":
    sys.exit(main())
