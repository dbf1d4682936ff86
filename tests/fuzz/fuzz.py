"""Random input for the readers of files and messages, guided by coverage: what ``make fuzz`` runs.

    python tests/fuzz/fuzz.py [READER] -max_total_time=60

An input that ends in another error than the reader's own is written to a file. It becomes a case: a folder of
tests/mapping/corpus, or an entry of :data:`readers.SEEDS`.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import atheris
except ImportError:
    sys.exit("the fuzzer needs atheris: install the extra shadowprice[fuzz]")

with atheris.instrument_imports(include=["shadowprice", "serving", "operations", "yaml"]):
    from readers import READERS, SEEDS


def main() -> int:
    """Run the fuzzer on the reader that the command line names, or on each for its time."""
    names, options = ([each for each in sys.argv[1:] if each.startswith("-") is dashed] for dashed in (False, True))
    if len(names) != 1:
        own = [sys.executable, *sys.argv[:1]]
        return max(subprocess.run([*own, name, *options], check=False).returncode for name in names or READERS)
    seeds = Path(tempfile.mkdtemp(prefix="shadowprice-seeds-"))
    for place, seed in enumerate(SEEDS[names[0]]):
        (seeds / str(place)).write_bytes(seed)
    atheris.Setup([sys.argv[0], str(seeds), *options], READERS[names[0]])
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
