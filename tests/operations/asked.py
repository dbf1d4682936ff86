"""A workspace that can be asked about: campaign, model, population and traffic."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd

from operations.common.workspace import CAMPAIGN, MODEL, POPULATION
from shadowprice.campaign import Budget, Campaign, Side, Terms
from shadowprice.limits.attributes import columns_file
from shadowprice.pacing.forecast import Profile
from shadowprice.pacing.history import Traffic
from shadowprice.pacing.population import write_population
from shadowprice.pacing.replay.day import Accounts
from shadowprice.responses.layers.heads import HazardHead, Head, save_heads

LEVELS: dict[Side, tuple[int, ...]] = {"customer": (0, 50, 100, 200), "merchant": (0, 100, 200)}
ROWS = 4000


def make_head(levels: tuple[int, ...], seed: int) -> HazardHead:
    rng = np.random.default_rng(seed)
    return HazardHead(
        levels=np.array(levels),
        weight=rng.normal(0, 0.3, (len(levels), 8)).astype(np.float32),
        bias=rng.normal(-3, 0.3, len(levels)).astype(np.float32),
        default_embedding=np.zeros(8, dtype=np.float32),
        base_weight=rng.normal(0, 0.3, 8).astype(np.float32),
        base_bias=-2.0,
    )


def make_workspace(folder: Path) -> Path:
    """Write model, population, traffic and campaign, and a table of groups."""
    rng = np.random.default_rng(3)
    heads: dict[Side, Head] = {side: make_head(levels, at) for at, (side, levels) in enumerate(LEVELS.items())}
    (folder / MODEL).mkdir()
    save_heads(heads, folder / MODEL)
    (folder / MODEL / "model.json").write_text(json.dumps({"model_version": "m1"}))
    frames = [
        pd.DataFrame({"account_id": [f"{side[0]}{i}" for i in range(ROWS)], "side": side, "embedding": list(z)})
        for side in LEVELS
        for z in [rng.normal(size=(ROWS, 8)).astype(np.float32)]
    ]
    pd.concat(frames).to_parquet(folder / "embeddings.parquet", index=False)
    accounts = {
        side: Accounts(np.array([f"{side[0]}{i}" for i in range(ROWS)]), rng.poisson(2, ROWS) + 1.0) for side in LEVELS
    }
    traffic = Traffic({side: Profile(np.ones(24), 3000.0) for side in LEVELS}, accounts)
    traffic.save(folder)
    write_population(folder / POPULATION / "m1", heads, folder / "embeddings.parquet", traffic)
    campaign = Campaign(
        name="all",
        sides={
            "customer": Terms(levels=LEVELS["customer"]),
            "merchant": Terms(levels=LEVELS["merchant"], cost_basis="on_grant", weight=0.4),
        },
        budget=Budget(name="day", limit=150_000),
        starts_at=datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=2),
    )
    (folder / CAMPAIGN).write_text(json.dumps(campaign.to_dict()))
    regions = pd.DataFrame({"account_id": [f"c{i}" for i in range(900)], "group": "north"})
    regions.to_parquet(folder / "regions.parquet", index=False)
    columns = pd.DataFrame({"account_id": [f"c{i}" for i in range(ROWS)], "c_region": ["north"] * 900 + [None] * 3100})
    columns.fillna({"c_region": "south"}).to_parquet(folder / columns_file("customer"), index=False)
    return folder
