"""``shadowprice init``: write a first mapping of the user's own files."""

import json
import re
import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from shadowprice.command.failures import Misused
from shadowprice.command.options import AsJson, application, main_of
from shadowprice.mapping.proposal import CHECK, propose, propose_vouchers, write_mapping
from shadowprice.mapping.sources import is_inside


def init(
    folder: Annotated[Path, typer.Argument(help="folder that gets mapping.yaml")],
    trials: Annotated[Path | None, typer.Option(help="CSV or Parquet file of the offers that were made")] = None,
    customers: Annotated[Path | None, typer.Option(help="file with a row for each customer")] = None,
    merchants: Annotated[Path | None, typer.Option(help="file with a row for each merchant")] = None,
    outcomes: Annotated[
        Path | None, typer.Option(help="file of results, redemptions or orders, unless the first holds them")
    ] = None,
    vouchers: Annotated[Path | None, typer.Option(help="in place of trials: file of collected vouchers")] = None,
    offers: Annotated[Path | None, typer.Option(help="file with the terms of each voucher")] = None,
    behaviors: Annotated[Path | None, typer.Option(help="file of carts and orders, for vouchers")] = None,
    currency: Annotated[
        str, typer.Option(help="ISO 4217 code of all amounts, by default USD; or offers: costs are numbers of them")
    ] = "",
    timezone: Annotated[str, typer.Option(help="zone of times that have none, such as Europe/Berlin")] = "UTC",
    as_json: AsJson = False,
) -> None:
    """Read the first rows of the files and write a mapping of their columns, with comments on what to check.

    Nothing is overwritten.
    """
    if (trials is None) == (vouchers is None):
        raise Misused("name either --trials, the offers that were made, or --vouchers, those that people collected")
    of_trials = {"trials": trials, "customers": customers, "merchants": merchants}
    of_vouchers = {"vouchers": vouchers, "offers": offers, "behaviors": behaviors}
    own, other = (of_trials, of_vouchers) if vouchers is None else (of_vouchers, of_trials)
    for name, file in other.items():
        if file is not None:
            raise Misused(f"--{name} does not go with --{next(iter(own))}; leave it out")
    files = {name: file for name, file in {**own, "outcomes": outcomes}.items() if file is not None}
    proposal = (propose if vouchers is None else propose_vouchers)(folder, files)
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
    outside = [] if all(is_inside(folder, file.absolute()) for file in files.values()) else ["--outside"]
    console.print(f"next: {shlex.join(['shadowprice', 'check', str(path), *outside])}", markup=False, highlight=False)


app = application(init)
main = main_of(app, "shadowprice init")
