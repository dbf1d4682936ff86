"""First prices of a model that is not registered yet: of a delivery's plan, or of a campaign that starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd

from operations.common.workspace import CAMPAIGN, PRICES, read_campaign
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput
from shadowprice.files import write_whole
from shadowprice.learning.bundle import EMBEDDINGS, read_meta
from shadowprice.pacing.decision_log.served import read_log
from shadowprice.pacing.price_store import PriceStore
from shadowprice.pacing.resolve import CampaignState
from shadowprice.pacing.spend import SpendReport
from shadowprice.price import PriceRecord
from shadowprice.responses.layers.heads import StoredHead

HOURS = 24


@dataclass(frozen=True)
class Solved:
    """Result of a solve.

    record   price record, sealed and not yet published
    figures  name → number; those of the record where empty
    text     Markdown for a reader; that of the record where empty
    """

    record: PriceRecord
    figures: Mapping[str, float] = field(default_factory=dict)
    text: str = ""


@dataclass(frozen=True)
class Day:
    """First day of a campaign: its name, its budget in minor units, and the requests expected."""

    campaign: str
    budget: int
    requests: int


def plan_delivery(model: Path, tables: Path | None, workspace: Path, out: Path, log: Path | None = None) -> Solved:
    """Plan a delivery by the stored values and write the plan; its prices are those of a place in each segment.

    With a decision log the plan is that of the accounts without a place, and of the places that are left.

    Raises:
        NotCertified: there is no plan, or its audit finds a fault.
    """
    # A re-solve needs neither torch nor pandera.
    from shadowprice.datasets.package import load_dataset
    from shadowprice.learning.delivery_plan import deliver, metrics_of

    if tables is None:
        raise InvalidInput("a delivery is planned with its tables", field="tables")
    campaign = read_campaign(workspace)
    store = PriceStore(workspace / PRICES)
    version, newest = store.next_version(campaign.name), store.latest(campaign.name, verified_only=True)
    placed = None
    if log is not None:
        placed = read_log(log, columns={"decisions": ("account_id", "level")}).decisions
    plan, record = deliver(model, load_dataset(tables).tables, campaign, out, version=version, placed=placed)
    if newest is not None and placed is not None and record.priced_before(newest):
        # Places may be solved again within an hour.
        record = replace(record, slot=newest.slot, step=newest.step + 1, sha256="").sealed()
    return Solved(record, metrics_of(plan), plan.markdown(campaign))


def start_campaign(model: Path, head: StoredHead, workspace: Path, out: Path, day: Day) -> Solved:
    """Price a day's budget over the people in a bundle, and write the campaign that starts with this price.

    A voucher costs its discount, on redemption.

    Raises:
        NotCertified: as the hourly re-solve does.
    """
    now = datetime.now(UTC)
    campaign = Campaign(
        name=day.campaign,
        sides={"customer": Terms(levels=tuple(head.levels.tolist()), cost_basis="on_response")},
        budget=Budget(form="total", limit=day.budget),
        starts_at=now.replace(minute=0, second=0, microsecond=0),
        hours=HOURS,
    )
    stored = np.array(pd.read_parquet(model / EMBEDDINGS)["embedding"].tolist(), dtype=np.float32)
    state = CampaignState(
        campaign=campaign,
        at=0.0,
        slot_and_step=(0, 0),
        spend=SpendReport(spent=0, responses={}, requests={}, observed_at=now),
        remaining={"customer": np.full(HOURS, day.requests / HOURS)},
        curves=lambda: {"customer": Curves(head.levels, head.response(stored))},
        newest=None,
        version=PriceStore(workspace / PRICES).next_version(day.campaign),
        model_version=str(read_meta(model)["model_version"]),
        now=now,
    )
    found = state.solve()
    write_whole(out / CAMPAIGN, json.dumps(campaign.to_dict(), indent=1))
    return Solved(found.record)
