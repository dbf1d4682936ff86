"""``shadowprice diff``: tell what a change of a campaign's terms will do."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from operations.common.workspace import read_campaign
from operations.questions.difference import Alone, Difference, difference
from operations.questions.question import plain
from shadowprice.campaign import Campaign
from shadowprice.command.options import application, main_of
from shadowprice.currency import Currency
from shadowprice.pacing.questions import Answer
from shadowprice.pacing.what_if import SAMPLE_ROWS


def diff(
    before: Annotated[Path, typer.Argument(help="campaign file as it is, or the folder of a run")],
    after: Annotated[Path, typer.Argument(help="campaign file as it would be")],
    run: Annotated[
        Path | None, typer.Option(help="folder of the run whose model answers; by default that of the first file")
    ] = None,
    rows: Annotated[int, typer.Option(help="accounts to solve on; 0 for all", min=0)] = SAMPLE_ROWS,
    as_json: Annotated[
        bool, typer.Option("--json", help="print the figures as JSON, whose money is in minor units")
    ] = False,
) -> None:
    """Say what a change of budget, levels, limits, rules or weights brings and takes; nothing is changed.

    Each changed term is also solved alone, and each limit and rule of the new file has the value that it costs.
    """
    workspace = run or (before if before.is_dir() else before.parent)
    found = difference(workspace, read_campaign(after), read_campaign(before), rows)
    if as_json:
        print(json.dumps(_plain(found), indent=1))
    else:
        show(found, Console())


def _plain(found: Difference) -> dict[str, Any]:
    def alone(change: Alone) -> dict[str, Any]:
        return {"name": change.name, "before": change.before, "after": change.after, **plain(change.answer)}

    return {
        "currency": found.campaign.currency,
        "money_unit": "minor units",
        "before": plain(found.before),
        "after": plain(found.after),
        "sides": {side: vars(change) for side, change in found.sides.items()},
        "changes": [alone(change) for change in found.changes],
        "without": [alone(change) for change in found.prices],
    }


def show(found: Difference, console: Console) -> None:
    """Print both campaigns, each change alone, who is given more, and the value that each limit and rule costs."""
    campaign, currency = found.campaign, Currency.of(found.campaign.currency)
    table = Table("terms", "spend", "added value", "change", title=f"campaign {campaign.name}")
    _add(table, "before", found.before, None, campaign, currency)
    for change in found.changes:
        name = f"  {change.name}: {' → '.join(map(_short, _parts(change.before, change.after)))}"
        _add(table, name, change.answer, found.before, campaign, currency)
    _add(table, "after", found.after, found.before, campaign, currency)
    console.print(table)
    answers = {"before": found.before, "after": found.after} | {each.name: each.answer for each in found.changes}
    for name, answer in answers.items():
        if answer.reason:
            console.print(f"{name}: {answer.reason}.", soft_wrap=True, markup=False, highlight=False)
    if not found.changes:
        console.print("The two files have the same terms.")
    for side, moved in found.sides.items():
        line = (
            f"{side}s: {moved.more:.1%} of the requests are given more and {moved.less:.1%} less; "
            f"{currency.write(moved.before)} before, {currency.write(moved.after)} after."
        )
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    hours = f"in {campaign.hours} hours"
    for change in found.prices:
        without = change.answer
        if without.status != "optimal":
            line = f"{change.name}: without it {without.status} too: {without.reason}."
        elif found.after.status != "optimal":
            added = campaign.told_in * without.added.value
            line = (
                f"{change.name} cannot be kept with the other terms; without it {currency.write(without.spend.value)} "
                f"is spent and {added:,.5g} of value added {hours}."
            )
        else:
            line = f"{change.name} costs {_difference(without, found.after, campaign):,.5g} of value {hours}."
        console.print(line, soft_wrap=True, markup=False, highlight=False)


def _add(
    table: Table, name: str, answer: Answer, before: Answer | None, campaign: Campaign, currency: Currency
) -> None:
    if answer.status != "optimal":
        table.add_row(name, answer.status, "", "")
        return
    change = ""
    if before is not None and before.status == "optimal":
        change = f"{_difference(answer, before, campaign):+,.5g}"
    table.add_row(name, currency.write(answer.spend.value), f"{campaign.told_in * answer.added.value:,.5g}", change)


def _difference(answer: Answer, other: Answer, campaign: Campaign) -> float:
    """Return the difference of two values; that of the last digits of a sum is 0."""
    return campaign.told_in * round(answer.value.value - other.value.value, 9) + 0.0


def _parts(before: Any, after: Any) -> tuple[Any, Any]:
    """Return two values of a term; of a limit or rule that both files have, its fields that differ."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return before, after
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return tuple({name: each[name] for name in names if name in each} for each in (before, after))  # type: ignore[return-value]


def _short(value: Any) -> str:
    """Return a value of a term, cut where it is long."""
    if isinstance(value, tuple):
        value = [row["levels"] for row in value]
    text = "none" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


app = application(diff)
main = main_of(app, "shadowprice diff")
