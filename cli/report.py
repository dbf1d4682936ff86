"""``shadowprice report``: write the report of a run again from its stored figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from cli.status import status_of
from shadowprice.reports.stored import rewrite_report

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="folder of the run, or JSON of the job evaluate")],
    page: Annotated[Path | None, typer.Option(help="file of the page; report.html of the run if left out")] = None,
    show: Annotated[bool, typer.Option("--open", help="open the page in a browser")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print the result as JSON")] = False,
) -> None:
    """Write the page again, with the layout of this version; figures are those of the run."""
    path = rewrite_report(run, page)
    print(json.dumps({"report": str(path)}) if as_json else path)
    if show:
        typer.launch(str(path))


def main() -> int:
    """Command line; see :func:`report`."""
    return status_of(app, "shadowprice report")
