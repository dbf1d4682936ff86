"""Publish a solved price, and the plan that was solved with it."""

import shutil
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from feature_repo.online import publish_price
from feature_repo.store import open_store
from operations.common.job import Job, option, reads, required
from operations.common.journal import actor
from operations.common.workspace import (
    CANARY_PRICE,
    FEATURES,
    LOG_TREE,
    PRICE,
    PRICES,
    log_of,
    logs_in,
    read_campaign,
)
from shadowprice.errors import Conflict, NotFound, ShadowpriceError
from shadowprice.pacing.canary import PRICES as CANARY_PRICES
from shadowprice.pacing.decision_log.tree import LogTree
from shadowprice.pacing.price_rules import check_price
from shadowprice.pacing.price_store import PriceStore
from shadowprice.price import LOG, PriceRecord

PLANS = ("plan.parquet", "plan.csv", "plan.json")
"""Files of a plan, which go to the workspace with their prices."""

SEALED_ROWS = 1 << 22
"""Most decisions that one price seals beyond the last: a minute. The next price goes on in a long log."""


@dataclass(frozen=True, kw_only=True)
class PublishJob(Job):
    """Add a price record to the price store and point the feature store at it."""

    price: Path = reads("folder that a solve wrote")
    workspace: Path = required("folder with price store and features")
    log: Path | None = option(
        None,
        "folder of the decision log, whose head is sealed in the price; that of a run on one machine if left out",
    )


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
        active = publish(record, job.workspace, job.log)
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


def publish(record: PriceRecord, workspace: Path, log: Path | None = None) -> PriceRecord:
    """Add a record to the price store, which settles who was first, and point the feature store at it."""
    newest = add(record, workspace, PriceStore(workspace / PRICES), log)
    publish_price(open_store(workspace / FEATURES), newest)
    return newest


def add(record: PriceRecord, workspace: Path, prices: PriceStore, log: Path | None = None) -> PriceRecord:
    """Add a record to a price store of a workspace's campaign; one that is the newest already stays."""
    check_price(record, read_campaign(workspace), datetime.now(UTC))
    newest = prices.latest(record.campaign, verified_only=True)
    # One that was published before an interruption stays, with what its publication added.
    added = {name: getattr(record, name) for name in ("by", *LOG)}
    if newest is None or replace(newest, **added).sealed() != record:
        newest = prices.publish(_signed(_headed(record, workspace, log)))
    return newest


def _headed(record: PriceRecord, workspace: Path, log: Path | None) -> PriceRecord:
    """Return a record with the head of the decision log; a log that cannot be read keeps no price from being used."""
    if log is None and not logs_in(workspace, live=True):
        return record
    try:
        head = LogTree(log or log_of(workspace, live=True), workspace / LOG_TREE).head(SEALED_ROWS)
    except (ShadowpriceError, OSError) as error:
        print(f"the price has no head of the decision log: {error}", flush=True)
        return record
    return replace(record.verify(), log_rows=head.rows, log_head=head.root).sealed()


def _signed(record: PriceRecord) -> PriceRecord:
    """Return a record with the user who publishes it."""
    return replace(record.verify(), by=actor()).sealed()
