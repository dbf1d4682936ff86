"""Random input for the readers of files and messages, guided by coverage.

    python tests/fuzz/fuzz.py mapping -max_total_time=60

An input that ends in another error than the reader's own is written to the working folder. It becomes a case: a folder
of tests/mapping/corpus, or an entry of :data:`readers.SEEDS`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["shadowprice", "serving", "operations", "yaml"]):
    from readers import READERS, SEEDS


def main() -> None:
    """Run the fuzzer on the reader that the command line names."""
    name, *options = sys.argv[1:]
    seeds = Path(tempfile.mkdtemp(prefix="shadowprice-seeds-"))
    for place, seed in enumerate(SEEDS[name]):
        (seeds / str(place)).write_bytes(seed)
    atheris.Setup([sys.argv[0], str(seeds), *options], READERS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
