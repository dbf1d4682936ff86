"""Prices of a delivery's plan, whose model is not registered yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from operations.common.workspace import PRICES, read_campaign
from shadowprice.errors import InvalidInput
from shadowprice.pacing.decision_log.served import read_log
from shadowprice.pacing.price_store import PriceStore
from shadowprice.price import PriceRecord


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
