"""Publish a solved price, and the plan that was solved with it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from feature_repo.online import publish_price
from feature_repo.store import open_store
from operations.common.job import Job, reads, required
from operations.common.journal import actor
from operations.common.workspace import CANARY_PRICE, FEATURES, PRICE, PRICES, read_campaign
from shadowprice.errors import Conflict, NotFound, ShadowpriceError
from shadowprice.pacing.canary import PRICES as CANARY_PRICES
from shadowprice.pacing.price_rules import check_price
from shadowprice.pacing.price_store import PriceStore
from shadowprice.price import PriceRecord

PLANS = ("plan.parquet", "plan.csv", "plan.json")
"""Files of a plan, which go to the workspace with their prices."""


@dataclass(frozen=True, kw_only=True)
class PublishJob(Job):
    """Add a price record to the price store and point the feature store at it."""

    price: Path = reads("folder that a solve wrote")
    workspace: Path = required("folder with price store and features")


def run(job: PublishJob) -> int:
    """Publish and return the active version.

    A record that is in the price store already is taken for published, so that an interrupted job can be tried again.
    Where another solver was first its price stays, and both runs succeed.

    Raises:
        NotFound: the folder has no price.
        Conflict: the price store is behind the feature store.
    """
    file = job.price / PRICE
    if not file.is_file():
        raise NotFound(f"price: there is no {file}; name the folder that a solve wrote")
    record = PriceRecord.read(file)
    try:
        active = publish(record, job.workspace)
    except Conflict as settled:
        newest = PriceStore(job.workspace / PRICES).latest(record.campaign, verified_only=True)
        if newest is None:
            raise
        print(f"nothing to publish: {settled}", flush=True)
        # The other solver may have been stopped before it reached the feature store.
        publish_price(open_store(job.workspace / FEATURES), newest)
        active = newest
    if (job.price / CANARY_PRICE).exists():
        _publish_canary(PriceRecord.read(job.price / CANARY_PRICE), job.workspace)
    for name in PLANS:
        if (job.price / name).exists():
            shutil.copyfile(job.price / name, job.workspace / name)
    return active.version


def _publish_canary(record: PriceRecord, workspace: Path) -> None:
    """Add a record to the canary's prices; one that another solver has published stays."""
    try:
        PriceStore(workspace / PRICES / CANARY_PRICES).publish(
            _signed(check_price(record, read_campaign(workspace), datetime.now(UTC)))
        )
    except ShadowpriceError as error:
        print(f"no new price of the canary: {error}", flush=True)


def publish(record: PriceRecord, workspace: Path) -> PriceRecord:
    """Add a record to the price store, which settles who was first, and point the feature store at it."""
    newest = add(record, workspace, PriceStore(workspace / PRICES))
    publish_price(open_store(workspace / FEATURES), newest)
    return newest


def add(record: PriceRecord, workspace: Path, prices: PriceStore) -> PriceRecord:
    """Add a record to a price store of a workspace's campaign; one that is the newest already stays."""
    check_price(record, read_campaign(workspace), datetime.now(UTC))
    newest = prices.latest(record.campaign, verified_only=True)
    # One that was published before an interruption stays, with the name of who published it.
    if newest is None or replace(newest, by=record.by).sealed() != record:
        newest = prices.publish(_signed(record))
    return newest


def _signed(record: PriceRecord) -> PriceRecord:
    """Return a record with the user who publishes it."""
    return replace(record.verify(), by=actor()).sealed()
