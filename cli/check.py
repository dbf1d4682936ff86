"""``shadowprice check``: read a user's files as tables and list every fault, without training."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from cli.status import status_of
from shadowprice.datasets.folder import read_tables
from shadowprice.errors import InvalidTable
from shadowprice.mapping import map_tables, read_mapping
from shadowprice.tables import Tables, campaign_from_tables

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def check(
    path: Annotated[Path, typer.Argument(help="mapping.yaml, or a folder of canonical tables")],
    outside: Annotated[bool, typer.Option("--outside", help="read files outside of the folder of the mapping")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print the result as JSON")] = False,
) -> None:
    """Read the files and check every rule of the tables; exit 1 where one is broken."""
    started = time.perf_counter()
    try:
        tables = read(path, outside=outside)
    except InvalidTable as error:
        if not as_json:
            raise
        print(json.dumps({"valid": False, "problems": [asdict(problem) for problem in error.problems]}))
        raise typer.Exit(1) from None
    seconds = time.perf_counter() - started
    facts = summary(tables)
    if as_json:
        print(json.dumps({"valid": True, **facts, "seconds": round(seconds, 2)}))
        return
    table = Table("table", "rows")
    for name, rows in facts["rows"].items():
        table.add_row(name, f"{rows:,}")
    console = Console()
    console.print("The files can be used.")
    console.print(table)
    for side, levels in facts["levels"].items():
        console.print(f"levels of {side}s in minor units: {', '.join(map(str, levels))}")
    console.print(f"checked in {seconds:.1f} s; next: shadowprice run {path}", soft_wrap=True)


def read(path: Path, *, outside: bool = False) -> Tables:
    """Read a folder of canonical tables, or the files of a mapping, with ``outside`` also those outside its folder."""
    return read_tables(path) if path.is_dir() else map_tables(read_mapping(path), outside=outside)


def summary(tables: Tables) -> dict[str, Any]:
    """Return the rows of each table, and the levels of each side."""
    campaign = campaign_from_tables(tables)
    levels = {side: [int(level) for level in terms.levels] for side, terms in campaign.sides.items()}
    return {"campaign": campaign.name, "rows": tables.rows(), "levels": levels}


def main() -> int:
    """Command line; see :func:`check`."""
    return status_of(app, "shadowprice check")
