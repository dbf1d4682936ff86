"""Window in which a run is served: open, with a ledger and an opening price of its own."""

import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from operations.common.workspace import CAMPAIGN, PRICES, SERVED
from serving.ledger.sqlite.claim import Claim
from serving.local.launch import LEDGER
from shadowprice.campaign import Campaign
from shadowprice.files import write_whole
from shadowprice.pacing.history import FILE as TRAFFIC
from shadowprice.pacing.history import Traffic
from shadowprice.pacing.price_rules import newest_usable
from shadowprice.pacing.price_store import PriceStore

EARLIER = "windows"
"""Folder of a run with the ledgers of windows that are over, one folder for each start."""


def open_window(run: Path, now: datetime | None = None) -> bool:
    """Begin a new window where that of a run's campaign is over, and price it; return whether one began.

    The new window starts now and has the length of the last one. ``campaign.json`` names it. The ledger of the last one
    and its log move to ``windows/<start>``, so nothing is spent yet, and the price is that of the whole budget for the
    requests that are expected in the window. While a window is open its ledger and its newest price stay.

    Args:
        run: folder of a run; one without traffic is left as it is.
        now: UTC; the present where it is None.

    Raises:
        Conflict: a ledger is still running on the last window.
        NotCertified: the new window has no certified price.
    """
    if not (run / TRAFFIC).exists():
        return False
    at = (now or datetime.now(UTC)).replace(second=0, microsecond=0)
    campaign = Campaign.from_dict(json.loads((run / CAMPAIGN).read_bytes()))
    over = at >= campaign.ends_at
    if over:
        _put_aside(run, run / EARLIER / f"{campaign.starts_at:%Y%m%dT%H%M}")
        campaign = replace(campaign, starts_at=at)
        write_whole(run / CAMPAIGN, json.dumps(campaign.to_dict(), indent=1))
    usable = newest_usable(PriceStore(run / PRICES).sound(campaign.name), campaign, at)
    if usable is None or (usable.stale(at) and not (run / LEDGER).exists()):
        # Imported here because Feast takes seconds, and most starts need no price.
        from operations.common.solver import Solver
        from operations.measure import before_start
        from operations.publish import publish

        publish(Solver(run).solve(before_start(campaign, Traffic.load(run))).record, run)
    return over


def _put_aside(run: Path, folder: Path) -> None:
    """Move the ledger of the last window and its log into a folder; what an interrupted call has moved stays there."""
    log = run / SERVED / Path(LEDGER).stem
    if not log.exists() and not any(run.glob(f"{LEDGER}*")):
        return
    held = Claim(run / LEDGER)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in (*run.glob(f"{LEDGER}*"), *([log] if log.exists() else [])):
            os.replace(path, folder / path.name)
    finally:
        held.close()
