"""A voucher campaign in a workspace: the stored curves, their price, and both published to who serves them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd

from feature_repo.columns import FeatureColumns
from feature_repo.featurize import project_of
from feature_repo.register import register
from feature_repo.resolve import PRICES, publish_price_file
from feature_repo.store import configured_online, create
from feature_repo.workspace import CAMPAIGN, FEATURES
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.curves import Curves
from shadowprice.files import write_whole
from shadowprice.learning.bundle import EMBEDDINGS, read_meta
from shadowprice.pacing.price_store import PriceStore
from shadowprice.pacing.resolve import resolve
from shadowprice.pacing.spend import SpendReport
from shadowprice.price import PriceRecord
from shadowprice.responses.layers.heads import load_heads

HOURS = 24


def solve_vouchers(bundle: Path, workspace: Path, out: Path, *, name: str, budget: int, requests: int) -> PriceRecord:
    """Price ``budget`` minor units over ``requests`` of the people in the bundle; writes campaign.json and the record.

    What a voucher costs is its discount, on redemption. Raises :class:`NotCertified` as the hourly re-solve does.
    """
    heads = load_heads(bundle)
    now = datetime.now(UTC)
    levels = tuple(heads["customer"].levels.tolist())
    campaign = Campaign(
        name=name,
        sides={"customer": Terms(levels=levels, cost_basis="on_response")},
        budget=Budget(form="total", limit=budget),
        starts_at=now.replace(minute=0, second=0, microsecond=0),
        hours=HOURS,
    )
    stored = np.array(pd.read_parquet(bundle / EMBEDDINGS)["embedding"].tolist(), dtype=np.float32)
    found = resolve(
        campaign,
        {"customer": Curves(heads["customer"].levels, heads["customer"].response(stored))},
        {"customer": np.full(HOURS, requests / HOURS)},
        SpendReport(spent=0, responses={}, requests={}, observed_at=now),
        slot=0,
        version=PriceStore(workspace / PRICES).next_version(name),
        model_version=str(read_meta(bundle)["model_version"]),
        now=now,
    )
    write_whole(out / CAMPAIGN, json.dumps(campaign.to_dict(), indent=1))
    write_whole(out / "price.json", found.record.to_json())
    return found.record


def publish_vouchers(bundle: Path, solved: Path, workspace: Path) -> int:
    """Put campaign, model and price where predictor and ledger look for them; returns the price's version."""
    campaign = Campaign.from_dict(json.loads((solved / CAMPAIGN).read_text()))
    workspace.mkdir(parents=True, exist_ok=True)
    write_whole(workspace / CAMPAIGN, (solved / CAMPAIGN).read_text())
    columns = FeatureColumns(profile={"customer": ("x_sessions",)})
    create(workspace / FEATURES, columns, configured_online(), project_of(campaign))
    register(bundle, workspace)
    return publish_price_file(solved / "price.json", workspace)
