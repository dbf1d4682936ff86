"""Run one job.

``python -m operations train '{"training": "…", …}'`` takes the fields as JSON, as the entrypoint of a Ray job does, and
``python -m operations register --model FOLDER --workspace FOLDER`` takes them as options.
"""

import sys
from collections.abc import Sequence

from operations.common.job import JOBS
from shadowprice.command.failures import AS_JSON, MISUSED, Misused, tell

PROGRAM = "python -m operations"


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: 1 with the reason when the job fails."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] in JOBS:
        from operations.common.job_command import run_job

        return run_job(words[0], f"{PROGRAM} {words[0]}", words[1:])
    usage = f"choose one of {', '.join(JOBS)}; {PROGRAM} JOB --help describes its fields"
    if words[:1] in (["--help"], ["-h"]):
        print(f"Usage: {PROGRAM} JOB [JSON | OPTIONS]\n\n{usage}")
        return 0
    fault = f"there is no job {words[0]!r}" if words else "Missing argument JOB"
    tell(PROGRAM, Misused(f"{fault}; {usage}"), AS_JSON in words)
    return MISUSED


if __name__ == "__main__":
    sys.exit(main())
