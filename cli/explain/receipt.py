"""``shadowprice receipt``: write all that is needed to check one decision, or check a log against published heads."""

import json
from pathlib import Path
from typing import Annotated

import typer

from operations.common.workspace import LOG_TREE, PRICES, list_prices, log_of, read_campaign
from shadowprice.command.options import AsJson, application, main_of
from shadowprice.errors import InvalidInput
from shadowprice.files import write_whole
from shadowprice.pacing.canary import PRICES as CANARY_PRICES
from shadowprice.pacing.decision_log import verify_receipt
from shadowprice.pacing.decision_log.receipt import Receipts
from shadowprice.pacing.price_store import PriceStore


def receipt(
    request: Annotated[str, typer.Argument(help="identifier of the request; without it, the log is checked")] = "",
    workspace: Annotated[Path, typer.Option(help="folder of the run or campaign")] = Path("runs/latest"),
    log: Annotated[Path | None, typer.Option(help="folder of the decision log; by default that of a local run")] = None,
    campaign: Annotated[Path | None, typer.Option(help="campaign file at the decision, if it changed since")] = None,
    out: Annotated[Path | None, typer.Option(help="file for the receipt; by default the output")] = None,
    verifier: Annotated[bool, typer.Option(help="print the program that verifies receipts")] = False,
    as_json: AsJson = False,
) -> None:
    """Write what is needed to check one decision: curve, levels, price, probability, and its place in the log.

    Without REQUEST, compare the whole log with the head that every published price was sealed with.
    """
    if verifier:
        print(Path(verify_receipt.__file__).read_text(), end="")
        return
    if not workspace.is_dir():
        raise InvalidInput(f"there is no folder {workspace}; name the run or campaign", field="--workspace")
    stores = [PriceStore(workspace / PRICES), PriceStore(workspace / PRICES / CANARY_PRICES)]
    own, listed = read_campaign(campaign or workspace), list_prices(workspace)
    receipts = Receipts(own, log or log_of(workspace, live=True), stores, workspace / LOG_TREE, listed)
    if not request:
        count = receipts.check_heads()
        print(json.dumps({"heads": count}) if as_json else f"the log agrees with {count} published heads")
    elif out is None:
        print(receipts.receipt(request).decode(), end="")
    else:
        write_whole(out, receipts.receipt(request))
        print(json.dumps({"receipt": str(out)}) if as_json else f"{out}: verified")


app = application(receipt)
main = main_of(app, "shadowprice receipt")
