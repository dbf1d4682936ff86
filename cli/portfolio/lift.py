"""``shadowprice portfolio lift``: estimate what all campaigns bring together."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from cli.options import number, pairs
from operations.common.maturity import BY_CAMPAIGN
from operations.questions.together import Together, together
from shadowprice.command.options import application, main_of
from shadowprice.currency import Currency
from shadowprice.experiments.written import lift_json, rate

Repeated = list[str] | None


def lift(
    workspaces: Annotated[list[Path], typer.Argument(help="folders of the runs, one campaign each")],
    log: Annotated[Repeated, typer.Option(help="CAMPAIGN=FOLDER: decision log; by default that of the run")] = None,
    accounts: Annotated[
        Path | None,
        typer.Option(help="parquet file with account_id of all accounts; by default those of the models"),
    ] = None,
    weight: Annotated[Repeated, typer.Option(help="CAMPAIGN=NUMBER: worth of one unit of its value")] = None,
    mature_hours: Annotated[
        int, typer.Option(help="age at which no outcome counts as no response; -1: each campaign's")
    ] = BY_CAMPAIGN,
    as_json: Annotated[
        bool, typer.Option("--json", help="print the result as JSON, whose money is in minor units")
    ] = False,
) -> None:
    """Compare the accounts that campaigns may treat with the company's holdout, over several decision logs.

    The outcomes and the money of an account are summed over the campaigns.
    """
    found = together(
        workspaces,
        {name: Path(folder) for name, folder in pairs(log or (), "log").items()},
        accounts,
        {name: number(text, "weight") for name, text in pairs(weight or (), "weight").items()},
        mature_hours,
    )
    if as_json:
        print(json.dumps(_plain(found), indent=1))
    else:
        show(found, Console())


def _plain(found: Together) -> dict[str, Any]:
    one, holdout = next(iter(found.campaigns.values())), {"forgone": found.forgone, "saved": found.saved}
    return {
        "currency": one.currency,
        "money_unit": "minor units",
        "accounts": found.accounts,
        "held": found.held,
        "requests": found.requests,
        "left_out": found.left_out,
        "lift": lift_json(found.lift),
        "by": {name: lift_json(own) for name, own in found.by.items()},
        **{name: [effect.value, effect.low, effect.high] for name, effect in holdout.items()},
    }


def show(found: Together, console: Console) -> None:
    """Print what the campaigns added, each and all together, and what the holdout costs."""
    one = next(iter(found.campaigns.values()))
    currency, factor, treated = Currency.of(one.currency), one.told_in, found.accounts - found.held
    table = Table("campaign", "requests", "value it added", "money it paid", f"value per {currency.one}")
    rows = {**found.by, "all together": found.lift}
    for name, own in rows.items():
        requests, money = found.requests.get(name, sum(found.requests.values())), own.cost.times(treated)
        added = str(own.value.times(factor * treated))
        table.add_row(name, f"{requests:,}", added, currency.write(money.value), rate(own, factor * currency.unit))
    console.print(table)
    lines = [
        f"The holdout has {found.held:,} of {found.accounts:,} accounts, {found.held / found.accounts:.2%}.",
        f"It forgoes {found.forgone.times(factor)} of value and saves {currency.write(found.saved.value)}.",
        *(
            f"{name}: values are {own.earned}, not measured."
            for name, own in found.campaigns.items()
            if own.long_term is not None
        ),
        *(
            f"{name}: {early:,} requests are left out, from before its services had the holdout."
            for name, early in found.left_out.items()
            if early
        ),
    ]
    for line in lines:
        console.print(line, soft_wrap=True, markup=False, highlight=False)


app = application(lift)
main = main_of(app, "shadowprice portfolio lift")
