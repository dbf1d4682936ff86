"""Run one job.

``python -m operations train '{"training": "…", …}'`` takes the fields as JSON, as the entrypoint of a Ray job does, and
``python -m operations register --model FOLDER --workspace FOLDER`` takes them as flags.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, is_dataclass
from typing import Any

from operations.common.job import JOBS, add_flags, job_class, run_here
from shadowprice.command import Arguments, answer


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: 1 with the reason when the job fails."""
    parser = Arguments(prog="python -m operations", description="Run one job.", add_help=False)
    parser.add_argument("job", choices=JOBS)
    given, rest = parser.parse_known_args(arguments)
    kind = job_class(given.job)
    fields = Arguments(prog=f"python -m operations {given.job}", description=kind.__doc__)
    fields.add_argument("fields", nargs="?", metavar="JSON", help="object with the fields, in place of the flags")
    fields.add_argument("--json", action="store_true", help="print the result as JSON")
    add_flags(fields, kind)
    values = vars(fields.parse_args(rest))
    text, as_json = values.pop("fields"), values.pop("json")

    def work() -> int:
        job = kind.from_json(text or json.dumps({name: value for name, value in values.items() if value is not None}))
        with redirect_stdout(sys.stderr if as_json else sys.stdout):
            result = run_here(job)
        if as_json:
            print(json.dumps({"job": job.name, "result": result, "outputs": job.outputs}, default=_plain))
        return 0

    return answer(f"{given.job} failed", work, as_json=as_json)


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


if __name__ == "__main__":
    sys.exit(main())
