"""``shadowprice whatif``: what a campaign would bring with another budget or other terms."""

from __future__ import annotations

import json
import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from cli.options import numbers, pairs
from cli.status import status_of
from operations.common.workspace import read_campaign
from operations.whatif import WhatifJob, run
from shadowprice.errors import InvalidInput
from shadowprice.pacing.what_if import SAMPLE_ROWS

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
Repeated = list[str] | None


@app.command()
def whatif(
    workspace: Annotated[Path, typer.Argument(help="folder of the run")],
    budget: Annotated[float, typer.Option(help="times the campaign's budget: 1.2 is a fifth more", min=0.0)] = 1.0,
    levels: Annotated[Repeated, typer.Option(help="SIDE=20,60: levels offered, some of the campaign's")] = None,
    limit: Annotated[
        Repeated, typer.Option(help="SIDE, GROUP, CONDITION or further BUDGET=MINOR_UNITS: most that it may cost")
    ] = None,
    groups: Annotated[Path | None, typer.Option(help="Parquet table of account_id and group")] = None,
    cap: Annotated[Repeated, typer.Option(help="SIDE=MINOR_UNITS: most that one account may cost")] = None,
    state: Annotated[Path | None, typer.Option(help="file of the job measure: ask about the time left")] = None,
    rows: Annotated[int, typer.Option(help="accounts to solve on; 0 for all", min=0)] = SAMPLE_ROWS,
    log: Annotated[
        Path | None, typer.Option(help="decision log: also estimate each answer from what was served")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the answers as JSON")] = False,
) -> None:
    """Solve the campaign again under other terms, over the population of its model; nothing is published."""
    own = read_campaign(workspace).budget
    if not math.isfinite(budget):
        raise InvalidInput("must be a finite number", field="--budget")
    asked = budget * own.limit
    with TemporaryDirectory(prefix="shadowprice-") as scratch:
        found = run(
            WhatifJob(
                answer=Path(scratch) / "answer.json",
                workspace=workspace,
                state=state,
                groups=groups,
                budget=round(asked) if own.form == "total" else asked,
                levels={side: numbers(text, "levels") for side, text in pairs(levels or (), "levels").items()},
                limits={name: numbers(text, "limit")[0] for name, text in pairs(limit or (), "limit").items()},
                caps={side: numbers(text, "cap")[0] for side, text in pairs(cap or (), "cap").items()},
                rows=rows,
                log=log,
            )
        )
    if as_json:
        print(json.dumps(found))
    else:
        show(found, Console())


def show(found: dict[str, Any], console: Console) -> None:
    """Print the answers as a table."""
    table = Table("terms", "budget", "spend", "added value", "λ", title=f"campaign {found['campaign']}")
    for name in ("current", "asked"):
        _add(table, name, found[name])
        for limit, price in list(found[name]["prices"].items())[1:]:
            table.add_row(f"  {limit}", "", "", "", f"{price:.4g}")
    table.add_section()
    for each in found["curve"]:
        _add(table, f"{each['share']:.0%}", each)
    console.print(table)
    for name, each in [(name, found["logged"][name]) for name in ("current", "asked") if "logged" in found]:
        if "refused" in each:
            told = f"no estimate: {each['refused']}"
        else:
            value, cost = each["value"], each["cost"]
            told = (
                f"value {value['value']:.4g} [{value['low']:.4g}, {value['high']:.4g}] and spend {cost['value']:.4g} "
                f"[{cost['low']:.4g}, {cost['high']:.4g}] per request, from {each['requests']:,} requests"
            )
        console.print(f"From the log, {name}: {told}.", soft_wrap=True, markup=False)
    if "logged" in found and (nothing := found["logged"]["given_nothing"]):
        console.print(f"{nothing:,} requests of the log that were given nothing are left out.", soft_wrap=True)
    console.print("Money in minor units. Added value: above the lowest level for every request.", soft_wrap=True)


def _add(table: Table, name: str, answer: dict[str, Any]) -> None:
    if answer["status"] != "optimal":
        table.add_row(name, f"{answer['budget']:,.0f}", answer["status"], "", "")
        return
    spend, added, price = (answer[key] for key in ("spend", "added", "price"))
    told = f"{added['value']:,.5g}"
    if None not in added.values():
        told += f" [{added['low']:,.5g}, {added['high']:,.5g}]"
    table.add_row(name, f"{answer['budget']:,.0f}", f"{spend['value']:,.0f}", told, f"{price['value']:.4g}")


def main() -> int:
    """Command line; see :func:`whatif`."""
    return status_of(app, "shadowprice whatif")
