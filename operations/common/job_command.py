"""Command line of a job, whose options are its fields."""

import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, is_dataclass
from typing import Annotated, Any

import typer

from operations.common.job import job_class, run_here
from shadowprice.command.options import AsJson, options_of, run_program, takes


def run_job(name: str, program: str, arguments: Sequence[str]) -> int:
    """Run the job called ``name`` as the arguments of ``program`` say, and return the exit status."""
    kind = job_class(name)

    @takes(options_of(kind))
    def run(
        fields: Annotated[
            str, typer.Argument(metavar="JSON", help="object with the fields, in place of the options")
        ] = "",
        as_json: AsJson = False,
        **values: Any,
    ) -> None:
        job = kind.from_json(fields or json.dumps({name: value for name, value in values.items() if value is not None}))
        with redirect_stdout(sys.stderr if as_json else sys.stdout):
            result = run_here(job)
        if as_json:
            print(json.dumps({"job": job.name, "result": result, "outputs": job.outputs}, default=_plain))

    run.__doc__ = kind.__doc__
    return run_program(run, program, arguments, failure=f"{name} failed")


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)
