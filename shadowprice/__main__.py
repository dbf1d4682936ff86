"""``shadowprice`` and ``python -m shadowprice``: the command line, which lies outside of the library.

An installed wheel keeps the folders above the library in ``shadowprice/_platform``; in a checkout they are at the
root of the repository. Only this command makes them importable, in this process and in those that it starts.
"""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path


def main() -> int:
    """Run the command line; return the exit status."""
    library = Path(__file__).resolve().parent
    installed = library / "_platform"
    root = str(installed if installed.is_dir() else library.parent)
    sys.path.insert(0, root)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    run: Callable[[], int] = import_module("cli.main").main
    return run()


if __name__ == "__main__":
    sys.exit(main())
