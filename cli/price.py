"""``shadowprice price``: show the active price of a workspace or all its prices, or go back to an earlier one."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from operations.common.workspace import PRICES, instead_of, override_in, read_campaign
from shadowprice.campaign import Campaign, places_of
from shadowprice.command.options import AsJson, application, main_of
from shadowprice.currency import Currency
from shadowprice.errors import NotFound
from shadowprice.pacing.budgets.kept import outcome_remarks, remark
from shadowprice.pacing.price_store import PriceStore
from shadowprice.pacing.roll_back import rolled_back
from shadowprice.price import PriceRecord

Workspace = Annotated[Path, typer.Argument(help="folder of the run")]


def show(workspace: Workspace, as_json: AsJson = False) -> None:
    """Show the newest price with its certificate, and who took its model where the gate refused it.

    Exit 1 where there is no price or it is damaged.
    """
    campaign = read_campaign(workspace)
    name = campaign.name
    record = PriceStore(workspace / PRICES).latest(name)
    if record is None:
        raise NotFound(f"campaign {name!r} has no price in {workspace / PRICES}; solve and publish one")
    override, refused = override_in(workspace, record.model_version), instead_of(workspace, record.model_version)
    if as_json:
        more = {"override": override, "instead_of": refused}
        known = {name: value for name, value in more.items() if value is not None}
        print(json.dumps(json.loads(record.to_json()) | known))
        return
    print(line(record, campaign))
    if note := remark(record, campaign):
        print(note)
    for note in outcome_remarks(record, campaign):
        print(note)
    if override is not None:
        note = f"taken all the same by {override['by']}: {override['reason']}"
        print(f"the gate refused model {record.model_version}; {note}")
    if refused is not None:
        print(f"the flat policy decides, because the gate refused model {refused['model_version']}")


def history(workspace: Workspace, as_json: AsJson = False) -> None:
    """List every sound price, the oldest first, and the faults of damaged files; exit 1 where there are faults."""
    campaign = read_campaign(workspace)
    records, faults = PriceStore(workspace / PRICES).history(campaign.name)
    if as_json:
        print(json.dumps({"prices": [json.loads(record.to_json()) for record in records], "faults": faults}))
    else:
        for record in records:
            print(line(record, campaign))
        for fault in faults:
            print(f"damaged: {fault}")
    if faults:
        raise typer.Exit(1)


def rollback(
    workspace: Workspace,
    version: Annotated[int, typer.Argument(help="version, as price history lists them", min=1)],
    as_json: AsJson = False,
) -> None:
    """Publish an earlier price again, as a new version; the next re-solve replaces it.

    An expired price, or one of another window or model, is refused with status 1.
    """
    from operations.publish import publish

    campaign = read_campaign(workspace)
    prices = PriceStore(workspace / PRICES)
    earlier, newest = prices.read(campaign.name, version), prices.latest(campaign.name, verified_only=True)
    published = publish(rolled_back(earlier, newest, prices.next_version(campaign.name), datetime.now(UTC)), workspace)
    print(published.to_json() if as_json else line(published, campaign))


def line(record: PriceRecord, campaign: Campaign) -> str:
    """Return a price in one line; λ is per major unit of the campaign's currency."""
    currency = Currency.of(campaign.currency)
    unit = f"{currency.major} of {campaign.earned} " if campaign.in_money else ""
    unit, scale = f"{unit}per {currency.one}", currency.unit * campaign.told_in
    prices = ", ".join(f"{name} {scale * price:.6g} {unit}" for name, price in record.prices.items())
    if places := places_of(campaign.segments, record.prices, currency):
        prices = ", ".join(f"{place.name} {currency.write(place.price)} a place" for place in places)
    return (
        f"version {record.version}, slot {record.slot}, model {record.model_version}: {prices}; {record.status}, "
        f"gap {record.gap:.1e}, violation {record.violation:.1e}, remaining {currency.write(record.remaining)}, "
        f"solved {record.solved_at:%Y-%m-%d %H:%M} UTC, expires {record.expires_at:%Y-%m-%d %H:%M} UTC"
    )


app = application(show, history, rollback, no_args_is_help=True)
main = main_of(app, "shadowprice price")
