"""``shadowprice settle``: book the redemptions of an order export in the ledger."""

import csv
import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from operations.common.workspace import read_campaign
from serving.client.client import LedgerClient
from serving.settle import Settlement, settle
from shadowprice.command.options import AsJson, application, main_of
from shadowprice.currency import Currency
from shadowprice.files import write_whole
from shadowprice.lists.codes import CodePool
from shadowprice.lists.redemptions import Redemption
from shadowprice.mapping.redemptions import read_redemptions


def redemptions(
    orders: Annotated[Path, typer.Argument(metavar="REDEMPTIONS", help="order export with the codes that were used")],
    mapping: Annotated[Path, typer.Option(help="YAML file that describes the columns of the export")],
    campaign: Annotated[Path, typer.Option(help="file of the campaign, or its workspace")],
    pool: Annotated[Path, typer.Option(help="CSV file of codes of the lists")],
    ledger_url: Annotated[
        str, typer.Option(help="address of the ledger", envvar="SHADOWPRICE_LEDGER_URL")
    ] = "http://127.0.0.1:8081",
    unmatched: Annotated[
        Path | None, typer.Option(help="CSV file for the orders that do not match, with the reasons")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Record what orders paid for codes: captures, and refunds as corrections; the same file twice records nothing.

    Orders that do not match are not booked. They are counted by reason and written to a file.
    """
    described = read_campaign(campaign)
    read = read_redemptions(orders, mapping)
    with CodePool(pool, described.name) as codes, LedgerClient(ledger_url, described.name) as ledger:
        result = settle(read, codes, ledger, described.currency)
    out = unmatched or orders.with_name(f"{orders.stem}.unmatched.csv")
    write_whole(out, _as_csv(result))
    facts = {name: value for name, value in asdict(result).items() if name != "unmatched"}
    facts |= {"unmatched": len(result.unmatched), "reasons": result.reasons}
    if as_json:
        print(json.dumps({"currency": described.currency, "money_unit": "minor units", **facts, "file": str(out)}))
        return
    currency = Currency.of(described.currency)
    table = Table("", "orders", "money")
    table.add_row("captured", f"{result.captured:,}", currency.write(result.captured_money))
    table.add_row("refunded", f"{result.refunded:,}", currency.write(result.refunded_money))
    if result.stated:
        table.add_row("amount added", f"{result.stated:,}", "")
    table.add_row("booked before", f"{result.unchanged:,}", "")
    for reason, number in result.reasons.items():
        table.add_row(reason, f"{number:,}", "")
    console = Console()
    console.print(table)
    console.print(f"{result.orders:,} orders with a code, {result.without:,} lines without one", soft_wrap=True)
    console.print(f"not booked: {len(result.unmatched):,}, listed in {out}", soft_wrap=True, markup=False)


def _as_csv(result: Settlement) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*Redemption._fields, "reason", "detail"])
    for each in result.unmatched:
        used = each.redemption._replace(redeemed_at=each.redemption.redeemed_at.isoformat())  # type: ignore[arg-type]
        writer.writerow([*used, each.reason, each.detail])
    return text.getvalue()


app = application(redemptions)
main = main_of(app, "shadowprice settle")
