"""The steps of a delivery over a workspace: learn, plan, publish."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from feature_repo.resolve import PRICES, publish_price_file
from feature_repo.workspace import read_campaign
from shadowprice.datasets.package import load_dataset
from shadowprice.errors import Conflict
from shadowprice.learning.delivery import learn_delivery
from shadowprice.learning.delivery_plan import PLAN, REPORT, metrics_of
from shadowprice.learning.delivery_plan import deliver as plan_and_write
from shadowprice.learning.training_set import TrainingSet
from shadowprice.pacing.price_store import PriceStore
from shadowprice.price import PriceRecord


def learn(
    training: Path, tables: Path, workspace: Path, out: Path, *, model: str, loss: str, epochs: int, seed: int
) -> tuple[str, Mapping[str, float]]:
    """Train a model of funds into ``out``; its version, and its figures on the test split."""
    return learn_delivery(
        TrainingSet.load(training),
        load_dataset(tables).tables,
        read_campaign(workspace),
        out,
        model=model,
        loss=loss,
        epochs=epochs,
        seed=seed,
    )


def deliver(bundle: Path, tables: Path, workspace: Path, out: Path) -> tuple[str, Mapping[str, float]]:
    """Plan the delivery into ``out``; its report as Markdown, and one number per figure."""
    campaign = read_campaign(workspace)
    version = PriceStore(workspace / PRICES).next_version(campaign.name)
    found = plan_and_write(bundle, load_dataset(tables).tables, campaign, out, version=version)
    return found.markdown(), metrics_of(found)


def publish(plan: Path, workspace: Path, model_version: str) -> int:
    """Copy the plan and its report to the workspace and publish the prices; their version.

    Raises:
        Conflict: the plan was made of another model's values.
    """
    price = plan / "price.json"
    made_of = PriceRecord.from_json(price.read_bytes()).model_version
    if made_of != model_version:
        raise Conflict(f"the plan was made of model {made_of!r}, and {model_version!r} is served")
    version = publish_price_file(price, workspace)
    for name in (PLAN, REPORT):
        shutil.copyfile(plan / name, workspace / name)
    return version
