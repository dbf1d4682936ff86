"""``shadowprice whatif``: ask what another budget or other terms bring."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from cli.options import number, pairs
from operations.common.workspace import read_campaign
from operations.whatif import WhatifJob, run
from shadowprice.campaign import Campaign
from shadowprice.command.options import application, main_of
from shadowprice.currency import Currency
from shadowprice.errors import InvalidInput
from shadowprice.pacing.what_if import SAMPLE_ROWS
from shadowprice.reports.headline import lowest, return_sentence, unit_of

Repeated = list[str] | None


def whatif(
    workspace: Annotated[Path, typer.Argument(help="folder of the run")],
    budget: Annotated[
        str,
        typer.Option(
            help="amount, such as 5000 or 5000.00, or a share of its budget, such as 120%; by default its own"
        ),
    ] = "",
    least_return: Annotated[
        float | None,
        typer.Option("--return", help="return of the last unit of money, such as 1.5, in place of a budget", min=0),
    ] = None,
    levels: Annotated[Repeated, typer.Option(help="SIDE=0.20,0.60: levels offered, some of the campaign's")] = None,
    limit: Annotated[
        Repeated, typer.Option(help="SIDE, GROUP, CONDITION or further BUDGET=AMOUNT: most that it may cost")
    ] = None,
    groups: Annotated[Path | None, typer.Option(help="Parquet table of account_id and group")] = None,
    cap: Annotated[Repeated, typer.Option(help="SIDE=AMOUNT: most that one account may cost")] = None,
    state: Annotated[Path | None, typer.Option(help="file of the job measure: ask about the time left")] = None,
    size: Annotated[Repeated, typer.Option(help="SEGMENT=N: accounts of a segment of a delivery")] = None,
    fee: Annotated[Repeated, typer.Option(help="SEGMENT=SHARE: share of a segment's value that counts")] = None,
    rows: Annotated[int, typer.Option(help="accounts to solve on; 0 for all", min=0)] = SAMPLE_ROWS,
    log: Annotated[
        Path | None, typer.Option(help="decision log: also estimate each answer from what was served")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="print the answers as JSON, whose money is in minor units")
    ] = False,
) -> None:
    """Solve the campaign again under other terms, over the population of its model; nothing is published.

    Amounts are in the campaign's currency.
    """
    campaign = read_campaign(workspace)
    currency = Currency.of(campaign.currency)
    amounts = partial(_amounts, currency)
    with TemporaryDirectory(prefix="shadowprice-") as scratch:
        answer = run(
            WhatifJob(
                answer=Path(scratch) / "answer.json",
                workspace=workspace,
                state=state,
                groups=groups,
                budget=_budget(budget or ("100%" if least_return is None else ""), campaign, currency),
                least_return=-1.0 if least_return is None else least_return,
                levels={
                    side: [round(amount) for amount in values] for side, values in amounts(levels, "levels").items()
                },
                limits=_limits(limit, campaign, currency),
                caps={side: values[0] for side, values in amounts(cap, "cap").items()},
                sizes={name: number(pair, "size") for name, pair in pairs(size or (), "size").items()},
                fees={name: number(pair, "fee") for name, pair in pairs(fee or (), "fee").items()},
                rows=rows,
                log=log,
            )
        )
    if as_json:
        print(json.dumps({"currency": campaign.currency, "money_unit": "minor units", **answer}))
    elif campaign.segments:
        show_places(answer, currency, Console())
    else:
        show(answer, campaign, Console())


def _budget(text: str, campaign: Campaign, currency: Currency) -> float:
    """Minor units that an option asks for; −1 where it is empty."""
    if not text:
        return -1.0
    own, whole = campaign.budget.limit, campaign.budget.form == "total"
    share, sign, rest = text.strip().partition("%")
    if not sign or rest:
        return currency.read(text, field="--budget", whole=whole)
    asked = number(share, "budget") / 100 * own
    if asked < 0:
        raise InvalidInput(f"must not be below 0%, got {text!r}", field="--budget")
    return round(asked) if whole else asked


def _limits(given: Repeated, campaign: Campaign, currency: Currency) -> dict[str, float]:
    """Limits by name: minor units, or units of a second outcome."""
    named, outcomes = pairs(given or (), "limit"), [limit.name for limit in campaign.group_budgets if limit.outcome]
    return {
        name: number(text, "limit") if name in outcomes else currency.read(text, field="--limit")
        for name, text in named.items()
    }


def _amounts(currency: Currency, given: Repeated, option: str) -> dict[str, list[float]]:
    """Minor units by name; commas divide the amounts of one name."""
    named = pairs(given or (), option).items()
    return {name: [currency.read(part, field=f"--{option}") for part in text.split(",")] for name, text in named}


def show(found: dict[str, Any], campaign: Campaign, console: Console) -> None:
    """Print the answers as a table, with the budget that was asked for in words before it."""
    currency = Currency.of(campaign.currency)
    asked, factor = found["asked"]["budget"], campaign.told_in
    own = f", {asked / campaign.budget.limit:.4g} times the campaign's" if campaign.budget.limit else ""
    console.print(f"Asked: a budget of {currency.write(asked)}{own}.", soft_wrap=True, markup=False, highlight=False)
    head = ("terms", "budget", "spend", "added value", f"λ per {currency.one}")
    table = Table(*head, title=f"campaign {found['campaign']}")
    for name in ("current", "asked"):
        _add(table, name, found[name], currency, factor)
        for limit, price in list(found[name]["prices"].items())[1:]:
            table.add_row(f"  {limit}", "", "", "", f"{factor * campaign.read_per(limit) * price:.4g}")
    table.add_section()
    for point in found["curve"]:
        _add(table, f"{point['share']:.0%}", point, currency, factor)
    console.print(table)
    for name in ("current", "asked"):
        if reason := found[name]["reason"]:
            console.print(f"{name}: {reason}.", soft_wrap=True, markup=False, highlight=False)
    for name, estimate in [(name, found["logged"][name]) for name in ("current", "asked") if "logged" in found]:
        if "refused" in estimate:
            line = f"no estimate: {estimate['refused']}"
        else:
            value = {name: factor * bound for name, bound in estimate["value"].items()}
            cost, low, high = (currency.write_mean(estimate["cost"][bound]) for bound in ("value", "low", "high"))
            line = (
                f"value {value['value']:.4g} [{value['low']:.4g}, {value['high']:.4g}] and "
                f"spend {cost} [{low}, {high}] per request, from {estimate['requests']:,} requests"
                + (f"; {estimate['outside']:,} without overlap are left out" if estimate["outside"] else "")
            )
        console.print(f"From the log, {name}: {line}.", soft_wrap=True, markup=False)
    if "logged" in found and (nothing := found["logged"]["given_nothing"]):
        console.print(f"{nothing:,} requests of the log that were given nothing are left out.", soft_wrap=True)
    line = f"Added value: {unit_of(campaign, currency)} above" if campaign.in_money else "Added value: above"
    console.print(f"{line} {lowest(campaign)} for every request.", soft_wrap=True, markup=False)
    price = found["asked"]["price"]["value"]
    if campaign.in_money and price is not None:
        console.print(f"{return_sentence(campaign, price)} at the budget asked for.", soft_wrap=True, markup=False)
    believed = found["asked"].get("believed")
    doubts = ["These are predictions of the model, without the errors of its curves."]
    for line in doubts if believed is None else _doubts(believed, campaign, currency):
        console.print(line, soft_wrap=True, markup=False, highlight=False)


def _doubts(believed: dict[str, Any], campaign: Campaign, currency: Currency) -> Iterator[str]:
    """Sentences about the errors of the curves at the terms asked for."""
    factor = campaign.told_in
    added, price = (
        "{value:,.4g} [{low:,.4g}, {high:,.4g}]".format(
            **{bound: unit * believed[name][bound] for bound in ("value", "low", "high")}
        )
        for name, unit in (("added", factor), ("price", factor * currency.unit))
    )
    yield (
        f"With the errors of the curves, by rows that the model was not fitted on: added value {added}, "
        f"λ per {currency.one} {price}."
    )
    if believed["pays"] is not None:
        yield f"Probability that one more {currency.one} pays: {believed['pays']:.0%}."


def show_places(found: dict[str, Any], currency: Currency, console: Console) -> None:
    """Print the plan of a delivery as it is and as asked, with the meaning of each price."""
    for name in ("current", "asked"):
        table = Table("segment", "accounts", "fee", "meaning of the price", title=name)
        for place in found[name]["places"]:
            table.add_row(place["name"], f"{place['demand']:,}", f"{place['fee']:.4g}", place["meaning"])
        console.print(table)
    now, asked, change = (_with_interval(found[name], currency) for name in ("current", "asked", "change"))
    line = f"Predicted value: {now} now, {asked} as asked, a change of {change}."
    console.print(f"{line} Intervals are over accounts like these.", soft_wrap=True, markup=False)


def _with_interval(found: dict[str, Any], currency: Currency) -> str:
    value, low, high = (currency.write(found[bound]) for bound in ("value", "low", "high"))
    return f"{value} [{low}, {high}]"


def _add(table: Table, name: str, answer: dict[str, Any], currency: Currency, factor: float) -> None:
    budget = currency.write(answer["budget"])
    if answer["status"] != "optimal":
        table.add_row(name, budget, answer["status"], "", "")
        return
    spend, added, price = (answer[key] for key in ("spend", "added", "price"))
    bounds = {name: None if bound is None else factor * bound for name, bound in added.items()}
    cell = f"{bounds['value']:,.5g}"
    # On all accounts there is no error of a sample.
    low, high = bounds["low"], bounds["high"]
    if low is not None and high is not None and low < high:
        cell += f" [{low:,.5g}, {high:,.5g}]"
    table.add_row(name, budget, currency.write(spend["value"]), cell, f"{factor * currency.unit * price['value']:.4g}")


app = application(whatif)
main = main_of(app, "shadowprice whatif")
