"""``shadowprice portfolio``: divide one sum of money between campaigns."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from cli.options import number, pairs
from operations.common.workspace import read_campaign
from operations.questions.propose import Proposed, propose
from shadowprice.command.options import application, main_of
from shadowprice.currency import Currency
from shadowprice.pacing.what_if import SAMPLE_ROWS

Repeated = list[str] | None


def portfolio(
    workspaces: Annotated[list[Path], typer.Argument(help="folders of the runs, one campaign each")],
    budget: Annotated[
        str, typer.Option(help="amount to divide, such as 12000; by default what the campaigns have together")
    ] = "",
    floor: Annotated[Repeated, typer.Option(help="CAMPAIGN=AMOUNT: least budget")] = None,
    cap: Annotated[Repeated, typer.Option(help="CAMPAIGN=AMOUNT: largest budget")] = None,
    weight: Annotated[Repeated, typer.Option(help="CAMPAIGN=NUMBER: worth of one unit of its value")] = None,
    rows: Annotated[int, typer.Option(help="accounts of each campaign to solve on; 0 for all", min=0)] = SAMPLE_ROWS,
    as_json: Annotated[
        bool, typer.Option("--json", help="print the proposal as JSON, whose money is in minor units")
    ] = False,
) -> None:
    """Propose budgets at which the last unit of money returns the same in every campaign; nothing is changed.

    Amounts are in the campaigns' currency.
    """
    currency = Currency.of(read_campaign(workspaces[0]).currency)
    amounts = partial(_amounts, currency)
    found = propose(
        workspaces,
        int(currency.read(budget, field="--budget", whole=True)) if budget else None,
        amounts(floor, "floor"),
        amounts(cap, "cap"),
        {name: number(text, "weight") for name, text in pairs(weight or (), "weight").items()},
        rows,
    )
    if as_json:
        print(json.dumps(_plain(found), indent=1))
    else:
        show(found, currency, Console())


def _amounts(currency: Currency, given: Repeated, option: str) -> dict[str, int]:
    named = pairs(given or (), option).items()
    return {name: int(currency.read(text, field=f"--{option}", whole=True)) for name, text in named}


def _plain(found: Proposed) -> dict[str, object]:
    return {
        "currency": next(iter(found.of.values())).campaign.currency,
        "money_unit": "minor units",
        "total": found.total,
        "price": found.portfolio.price,
        "gap": found.portfolio.gap,
        "gained": found.gained,
        "campaigns": {
            name: {
                "budget": int(proposal.now.budget),
                "proposed": int(proposal.then.budget),
                "floor": proposal.floor,
                "cap": proposal.cap,
                "price": [proposal.returns.value, proposal.returns.low, proposal.returns.high],
                "price_proposed": proposal.then.price.value,
                "gained": proposal.gained,
                "beyond_noise": proposal.beyond_noise,
            }
            for name, proposal in found.of.items()
        },
    }


def show(found: Proposed, currency: Currency, console: Console) -> None:
    """Print the budgets, what the last unit of money returns in each, and what the move brings."""
    factors = {name: proposal.campaign.told_in for name, proposal in found.of.items()}
    one = currency.one
    table = Table("campaign", "budget", "proposed", f"returns per {one} now", "as proposed", "value it gains")
    for name, proposal in found.of.items():
        unit = currency.unit * factors[name]
        now = proposal.returns
        band = f"{unit * now.value:.4g} [{unit * now.low:.4g}, {unit * now.high:.4g}]"
        table.add_row(
            name,
            currency.write(proposal.now.budget),
            currency.write(proposal.then.budget),
            band if proposal.beyond_noise else f"{band}, no different",
            f"{unit * proposal.then.price.value:.4g}",
            f"{factors[name] * proposal.gained:+,.5g}",
        )
    console.print(table)
    factor = next(iter(factors.values()))
    line = (
        f"Value gained by the curves: {factor * found.gained:+,.5g} at {currency.write(found.total)}. "
        f"No other division brings {found.portfolio.gap:.2g} of the value more."
    )
    console.print(line, soft_wrap=True, markup=False, highlight=False)
    ups = [name for name, proposal in found.of.items() if proposal.moved > 0]
    downs = [name for name, proposal in found.of.items() if proposal.moved < 0]
    if ups and downs:
        best = max(ups, key=lambda name: found.of[name].moved)
        worst = min(downs, key=lambda name: found.of[name].moved)
        returns = {name: currency.unit * factors[name] * found.of[name].returns.value for name in (best, worst)}
        line = f"{one} returns {returns[best]:.4g} in {best}, {returns[worst]:.4g} in {worst} today."
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    if not any(proposal.beyond_noise for proposal in found.of.values()):
        console.print("The returns do not differ beyond their error: leave the budgets.", soft_wrap=True)


app = application(portfolio)
main = main_of(app, "shadowprice portfolio")
