"""A small workspace: campaign, model, features, price and ledger, without a fault."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from feature_repo.columns import FeatureColumns
from feature_repo.store import create as create_features
from serving.ledger.sqlite.database import create as create_ledger
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.pacing.price_store import PriceStore
from shadowprice.price import PriceRecord
from shadowprice.responses.integrity import file_digests
from shadowprice.responses.layers.heads import FILE

NOW = datetime.now(UTC)


@pytest.fixture(scope="session")
def campaign() -> Campaign:
    """A campaign that started an hour ago."""
    return Campaign(
        name="spring",
        sides={"customer": Terms(levels=(0, 50))},
        budget=Budget(form="total", limit=1_000),
        starts_at=NOW - timedelta(hours=1),
    )


@pytest.fixture(scope="session")
def price() -> PriceRecord:
    """First price of the campaign."""
    return PriceRecord(
        campaign="spring",
        version=1,
        slot=0,
        prices={"budget": 0.1},
        tie_share=0.0,
        status="optimal",
        primal=1.0,
        dual=1.0,
        gap=0.0,
        violation=0.0,
        spent=0,
        remaining=1_000,
        sample_rows=10,
        model_version="m1",
        solved_at=NOW,
        expires_at=NOW + timedelta(hours=2),
    )


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Feature store of the campaign, as the product writes it."""
    folder = tmp_path_factory.mktemp("features")
    columns = FeatureColumns(profile={"customer": ("x_age",)}, embedding_width=2, model_versions=("m1",))
    create_features(folder, columns, project="shadowprice_spring")
    return folder


@pytest.fixture
def workspace(tmp_path: Path, features: Path, campaign: Campaign, price: PriceRecord) -> Path:
    """A workspace without a fault, whose price has version 1."""
    place = tmp_path / "workspace"
    (place / "model").mkdir(parents=True)
    shutil.copytree(features, place / "features")
    (place / "campaign.json").write_text(json.dumps(campaign.to_dict()))
    (place / "model" / FILE).write_bytes(b"heads")
    digests = file_digests(place / "model")
    (place / "model" / "model.json").write_text(json.dumps({"model_version": "m1", "files": digests}))
    PriceStore(place / "prices").publish(price.sealed())
    create_ledger(place / "ledger.db", campaign)
    return place


@pytest.fixture
def publish(workspace: Path, price: PriceRecord) -> Callable[..., PriceRecord]:
    """Publishes the next price of the workspace, of the next slot, with changes."""
    store = PriceStore(workspace / "prices")

    def add(**changes: object) -> PriceRecord:
        version = store.next_version("spring")
        record = replace(price, version=version, slot=version - 1, **changes)  # type: ignore[arg-type]
        return store.publish(record.sealed())

    return add
