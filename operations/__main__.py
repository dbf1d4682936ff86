"""Run one job.

``python -m operations train '{"training": "…", …}'`` takes the fields as JSON, as the entrypoint of a Ray job does, and
``python -m operations register --model FOLDER --workspace FOLDER`` takes them as flags.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from operations.common.job import JOBS, add_flags, job_class, run_here
from shadowprice.errors import ShadowpriceError


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: 1 with the reason when the job fails."""
    parser = argparse.ArgumentParser(prog="python -m operations", description="Run one job.", add_help=False)
    parser.add_argument("job", choices=JOBS)
    given, rest = parser.parse_known_args(arguments)
    kind = job_class(given.job)
    fields = argparse.ArgumentParser(prog=f"python -m operations {given.job}", description=kind.__doc__)
    fields.add_argument("json", nargs="?", help="JSON object with the fields, in place of the flags")
    add_flags(fields, kind)
    values = vars(fields.parse_args(rest))
    text = values.pop("json")
    try:
        job = kind.from_json(text) if text else kind(**{name: v for name, v in values.items() if v is not None})
        run_here(job)
    except ShadowpriceError as error:
        print(f"{given.job} failed: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
