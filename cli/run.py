"""``shadowprice run``: the whole loop on the user's own files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from cli.status import status_of
from pipelines import quickstart
from shadowprice.command import Misused

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run(
    context: typer.Context,
    path: Annotated[
        Path | None, typer.Argument(help="mapping.yaml, or a folder of canonical tables; may be left out with --resume")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="go on with the newest run that was interrupted; its finished steps stay")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print the result as JSON, and progress on stderr")] = False,
) -> None:
    """Learn, price, serve and replay a day on these files; more options are those of ``shadowprice quickstart``."""
    if path is None and not resume:
        raise Misused("name mapping.yaml or a folder of tables, or go on with an interrupted run by --resume")
    named = [] if path is None else ["--dataset", "tables" if path.is_dir() else "mapping", "--data", str(path)]
    sys.argv = ["shadowprice run", *named, *context.args, *["--resume"] * resume, *["--json"] * as_json]
    raise typer.Exit(quickstart.main())


def main() -> int:
    """Command line; see :func:`run`."""
    return status_of(app, "shadowprice run")
