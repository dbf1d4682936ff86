"""``shadowprice decide``: decide a list of accounts at once."""

import json
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from sys import stderr
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

from cli.codes import read_list
from operations.common.job import run_here
from operations.common.workspace import read_campaign
from operations.decide import DecideJob
from shadowprice.command.options import AsJson, application, main_of
from shadowprice.currency import Currency
from shadowprice.errors import InvalidInput
from shadowprice.lists.codes import CodePool
from shadowprice.lists.table import list_file


def decide(
    accounts: Annotated[
        Path, typer.Argument(help="CSV or parquet file with a column account_id, and side where the campaign has both")
    ],
    campaign: Annotated[Path, typer.Option(help="workspace of the campaign, with its model")],
    out: Annotated[Path, typer.Option(help="file of the list, .parquet or .csv")],
    ledger_url: Annotated[
        str, typer.Option(help="address of the ledger that authorizes the list", envvar="SHADOWPRICE_LEDGER_URL")
    ] = "",
    no_ledger: Annotated[bool, typer.Option("--no-ledger", help="write a plan: nothing is authorized")] = False,
    list_name: Annotated[
        str,
        typer.Option(
            "--list", help="name of the list, with one decision for each account; by default that of ACCOUNTS"
        ),
    ] = "",
    budget: Annotated[
        str,
        typer.Option(help="most that the list may use; by default all that is left"),
    ] = "",
    summary: Annotated[Path | None, typer.Option(help="file that gets the summary as Markdown")] = None,
    codes: Annotated[
        Path | None,
        typer.Option(help="CSV file of codes for the rows, as by `shadowprice codes`"),
    ] = None,
    workers: Annotated[int, typer.Option(help="Ray actors that hold the accounts; 0 solves in this process")] = 0,
    as_json: AsJson = False,
) -> None:
    """Decide each account of a list, over exactly these accounts, and authorize each in the ledger.

    A list that was interrupted goes on where it stopped; the same list gives the same file and costs nothing.
    """
    described = read_campaign(campaign)
    currency = Currency.of(described.currency)
    if codes and (no_ledger or not ledger_url):
        raise InvalidInput("needs a ledger: a plan gets no codes", field="--codes")
    with (
        CodePool(codes, described.name) if codes else nullcontext() as pool,
        TemporaryDirectory(prefix="shadowprice-") as scratch,
    ):
        page = summary or Path(scratch) / "list.md"
        job = DecideJob(
            accounts=accounts,
            out=out,
            summary=page,
            workspace=campaign,
            list_name=list_name,
            ledger_url="" if no_ledger else ledger_url,
            budget=int(currency.read(budget, field="--budget")) if budget else -1,
            workers=workers,
        )
        with redirect_stdout(stderr):
            figures = run_here(job)
        if pool:
            coded = pool.assign(read_list(out))
            with list_file(out) as write:
                write(coded)
        if as_json:
            print(json.dumps({"list": str(out), "money_unit": "minor units", **figures}))
        else:
            Console().print(Markdown(page.read_text()))


app = application(decide)
main = main_of(app, "shadowprice decide")
