"""``shadowprice check``: read a user's files as tables and list every fault, without training."""

import json
import shlex
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from shadowprice.campaign import Campaign
from shadowprice.command.options import application, main_of
from shadowprice.currency import Currency
from shadowprice.datasets.inputs import dataset_of
from shadowprice.datasets.registry import Dataset, load
from shadowprice.errors import InvalidTable
from shadowprice.evaluation.uplift.evidence import SideEvidence
from shadowprice.evidence.dropped import Dropped
from shadowprice.evidence.faults import refuse_faults
from shadowprice.evidence.sides import evidence_of
from shadowprice.reports.texts import evidence_notes, evidence_table
from shadowprice.storage import to_json
from shadowprice.tables import Tables, campaign_from_tables

SHOWN_COLUMNS = 5
"""Columns of the evidence that are printed, of those that the report shows."""


def check(
    path: Annotated[Path, typer.Argument(help="mapping.yaml, or a folder of canonical tables")],
    outside: Annotated[bool, typer.Option("--outside", help="read files outside of the folder of the mapping")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="print the result as JSON, with levels in minor units")
    ] = False,
) -> None:
    """Check every rule of the tables, count the rows that are learned from, and show what the trial says.

    Exit 1 where a rule is broken, propensities do not fit the shares found, or too many rows would be lost.
    """
    started = time.perf_counter()
    try:
        files = read(path, outside=outside)
        tables, currency = files.tables, Currency.of(files.currency)
        campaign = campaign_from_tables(tables, files.currency)
        tables, counted = refuse_faults(tables, campaign, currency, files.split)
    except InvalidTable as error:
        if not as_json:
            raise
        print(json.dumps({"valid": False, "problems": [asdict(problem) for problem in error.problems]}))
        raise typer.Exit(1) from None
    evidence = evidence_of(tables, campaign, currency)
    seconds = time.perf_counter() - started
    facts = summary(tables, campaign)
    if as_json:
        by_side = {
            estimate.side: json.loads(to_json(estimate)) | {"sentence": estimate.sentence} for estimate in evidence
        }
        lost = json.loads(to_json(counted))
        more = {"notes": tables.notes, "learned_from": lost, "evidence": by_side, "seconds": round(seconds, 2)}
        print(json.dumps({"valid": True, **facts, **more}))
        return
    console = Console()
    console.print("The files can be used.")
    _print_rows(console, facts["rows"], counted)
    for name, note in tables.notes.items():
        console.print(f"{name}: {note}", soft_wrap=True, markup=False, highlight=False)
    for side, levels in facts["levels"].items():
        line = f"levels of {side}s: {', '.join(map(currency.write, levels))}"
        if side in facts["offers"]:
            costs = (f"{name} {currency.write(cost)}" for name, cost in facts["offers"][side])
            line = f"offers of {side}s, with costs: {', '.join(costs)}"
        if places := campaign.sides[side].segments:
            line = f"segments of {side}s: {', '.join(f'{entry.name} {entry.demand:,}' for entry in places)} accounts"
        if side in facts["unordered"]:
            control = campaign.sides[side].control
            line += "; they have no order, and " + ("the first is the control" if control else "none is a control")
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    for estimate in evidence:
        _print_evidence(console, estimate, currency)
    run = ["shadowprice", "run", str(path), *(["--options", json.dumps({"outside": True})] if outside else [])]
    if any(estimate.weighted for estimate in evidence):
        # A model of rows with different chances learns who was chosen, unless they are weighted.
        run += ["--weighting", "known"]
    console.print(f"checked in {seconds:.1f} s; next: {shlex.join(run)}", markup=False, soft_wrap=True)


def read(path: Path, *, outside: bool = False) -> Dataset:
    """Read a folder of canonical tables, or the files of a mapping, with ``outside`` also those outside its folder."""
    options = {} if path.is_dir() else {"outside": outside}
    return load(dataset_of(path), str(path), **options)


def summary(tables: Tables, campaign: Campaign) -> dict[str, Any]:
    """Return the rows of each table, and the levels of each side.

    Of a side whose levels are offers and not amounts, ``offers`` has each with its cost.
    """
    sides, currency = campaign.sides.items(), Currency.of(campaign.currency)
    return {
        "campaign": campaign.name,
        "rows": tables.rows(),
        "levels": {side: [int(level) for level in terms.levels] for side, terms in sides},
        "offers": {
            side: list(zip(terms.names(currency), terms.unit_costs, strict=True))
            for side, terms in sides
            if terms.amounts
        },
        "unordered": [side for side, terms in sides if not terms.ordered],
    }


def _print_rows(console: Console, rows: Mapping[str, int], counted: Dropped) -> None:
    table = Table("table", "rows")
    for name, number in rows.items():
        table.add_row(name, f"{number:,}")
    console.print(table)
    for group, facts in counted.facts().items():
        counts = ", ".join(f"{name} {number:,}" for name, number in facts.items())
        console.print(f"{group}: {counts}", soft_wrap=True)


def _print_evidence(console: Console, found: SideEvidence, currency: Currency) -> None:
    """Print a short form of the report's table: the columns that fit a terminal."""
    head, rows = evidence_table(found, currency)
    table = Table(*head[:SHOWN_COLUMNS])
    for row in rows:
        table.add_row(*(cell.replace(" [", "\n\\[") for cell in row[:SHOWN_COLUMNS]))
    console.print(f"\nWhat the trial shows of {found.side}s, all rows with a final outcome, 95 % intervals:")
    console.print(table)
    for line in (found.sentence, *evidence_notes(found, currency)):
        console.print(line, markup=False, soft_wrap=True)
    if found.verdict != "identified":
        console.print("A model of this side does not pass the gate.", soft_wrap=True)


app = application(check)
main = main_of(app, "shadowprice check")
