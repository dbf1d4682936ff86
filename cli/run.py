"""``shadowprice run``: the whole loop on the user's own files."""

from pathlib import Path
from typing import Annotated, Any

import typer

from pipelines.quickstart import OPTIONS, start
from shadowprice.command.failures import Misused
from shadowprice.command.options import application, main_of, takes
from shadowprice.datasets.inputs import dataset_of


@takes(OPTIONS)
def run(
    context: typer.Context,
    path: Annotated[
        Path | None,
        typer.Argument(help="mapping.yaml, or a folder of canonical tables or sessions; may be left out with --resume"),
    ] = None,
    **given: Any,
) -> int:
    """Learn, price, serve and replay a day on these files."""
    if path is None and not given["resume"]:
        raise Misused("name mapping.yaml or a folder of tables, or go on with an interrupted run by --resume")
    named = {}
    if path is not None:
        named = {"dataset": dataset_of(path), "data": str(path)}
    return start(context, given, named)


app = application(run)
main = main_of(app, "shadowprice run")
