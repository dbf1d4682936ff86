"""``shadowprice init``: write a first mapping of the user's own files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from shadowprice.command.options import AsJson, application, main_of
from shadowprice.mapping.proposal import CHECK, propose, write_mapping


def init(
    folder: Annotated[Path, typer.Argument(help="folder that gets mapping.yaml; made where it is missing")],
    trials: Annotated[Path, typer.Option(help="CSV or Parquet file of the offers that were made")],
    customers: Annotated[Path | None, typer.Option(help="file with a row for each customer")] = None,
    merchants: Annotated[Path | None, typer.Option(help="file with a row for each merchant")] = None,
    outcomes: Annotated[Path | None, typer.Option(help="file of results, where the trials do not hold them")] = None,
    currency: Annotated[
        str, typer.Option(help="code of ISO 4217 of all amounts, USD if left out; or offers: costs are numbers of them")
    ] = "",
    timezone: Annotated[str, typer.Option(help="zone of times that have none, such as Europe/Berlin")] = "UTC",
    as_json: AsJson = False,
) -> None:
    """Read the first rows of the files and write a mapping of their columns, with comments on what to check.

    Nothing is overwritten.
    """
    files = {"trials": trials, "customers": customers, "merchants": merchants, "outcomes": outcomes}
    proposal = propose(folder, {name: file for name, file in files.items() if file is not None})
    campaign = re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")[:63] or "campaign"
    path = write_mapping(folder, proposal, currency=currency, timezone=timezone, campaign=campaign)
    if as_json:
        tables: dict[str, dict[str, str]] = {}
        for part in proposal.parts:
            tables.setdefault(part.table, {}).update({name: column.own for name, column in part.columns.items()})
        print(json.dumps({"mapping": str(path), "columns": tables, "missing": proposal.missing}))
        return
    console = Console(soft_wrap=True)
    count = path.read_text(encoding="utf-8").count(f"{CHECK}:")
    console.print(f"{path} is written: check its {count} lines with {CHECK}", markup=False, highlight=False)
    for name in proposal.missing:
        console.print(f"no column was found for {name}: add it", markup=False, highlight=False)
    console.print(f"next: shadowprice check {path}", markup=False, highlight=False)


app = application(init)
main = main_of(app, "shadowprice init")
