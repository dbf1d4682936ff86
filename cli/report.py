"""``shadowprice report``: write the report of a run again from its stored figures."""

import json
from pathlib import Path
from typing import Annotated

import typer

from shadowprice.command.options import AsJson, application, main_of
from shadowprice.reports.stored import rewrite_report


def report(
    run: Annotated[Path, typer.Argument(help="folder of the run, or JSON of the job evaluate")],
    page: Annotated[Path | None, typer.Option(help="file of the page; by default report.html of the run")] = None,
    show: Annotated[bool, typer.Option("--open", help="open the page in a browser")] = False,
    as_json: AsJson = False,
) -> None:
    """Write the page again, with the layout of this version; figures are those of the run."""
    path = rewrite_report(run, page)
    print(json.dumps({"report": str(path)}) if as_json else path)
    if show:
        typer.launch(str(path))


app = application(report)
main = main_of(app, "shadowprice report")
