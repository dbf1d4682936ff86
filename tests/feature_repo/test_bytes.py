"""Registering a model writes at most 1 kB for each account."""

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.scale import written
from feature_repo.columns import describe
from feature_repo.names import project_of
from feature_repo.offline import write_interactions, write_profiles
from feature_repo.online import OnlineReader
from feature_repo.store import create
from operations.common.workspace import CAMPAIGN, FEATURES
from operations.register import RegisterJob, run
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.learning.bundle import EMBEDDINGS, Served, write_served
from shadowprice.responses.layers.heads import StoredHead

ACCOUNTS, WIDTH, PROFILE, AGGREGATES = 4000, 64, 8, 13
"""Columns are as many as those of the scale benchmark, all of them noise that no compression makes shorter."""
LEVELS = (0, 50, 100)
CAMPAIGN_OF_TEST = Campaign(
    name="spring",
    sides={"customer": Terms(levels=LEVELS)},
    budget=Budget(limit=100),
    starts_at=datetime(2026, 5, 1, tzinfo=UTC),
)
MOST = 1000


def columns(prefix: str, count: int, random: np.random.Generator) -> pd.DataFrame:
    names = [f"{prefix}_partner_mean_{number}" for number in range(count)]
    at = pd.Timestamp("2026-04-01", tz="UTC")
    rows = pd.DataFrame(random.normal(size=(ACCOUNTS, count)), columns=names)
    return rows.assign(account_id=[f"a{k:07d}" for k in range(ACCOUNTS)], side="customer", snapshot_ts=at)


def workspace(folder: Path, random: np.random.Generator) -> Path:
    """A workspace as featurize leaves it."""
    profile, aggregates = columns("x", PROFILE, random), columns("h", AGGREGATES, random)
    (folder / FEATURES).mkdir(parents=True)
    (folder / CAMPAIGN).write_text(json.dumps(CAMPAIGN_OF_TEST.to_dict()))
    store = create(folder / FEATURES, describe(profile, aggregates), project=project_of(CAMPAIGN_OF_TEST))
    write_profiles(store, profile)
    write_interactions(store, aggregates)
    return folder


def bundle(folder: Path, random: np.random.Generator) -> tuple[Path, np.ndarray]:
    folder.mkdir()
    matrix = random.normal(size=(ACCOUNTS, WIDTH)).astype(np.float32)
    head = StoredHead(levels=np.array(LEVELS), default_embedding=np.zeros(WIDTH, np.float32))
    served = {"customer": Served(np.array([f"a{k:07d}" for k in range(ACCOUNTS)]), matrix, head)}
    write_served(served, folder, recipe="joint_gnn", describe={}, corrections={}, metrics={})
    return folder, matrix


def test_a_registered_account_takes_at_most_a_kilobyte_and_is_read_as_it_was_written(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    place, (model, matrix) = workspace(tmp_path / "workspace", random), bundle(tmp_path / "model", random)
    before = written(tmp_path)
    version = run(RegisterJob(model=model, workspace=place))
    assert (written(tmp_path) - before) / ACCOUNTS < MOST
    reader = OnlineReader(place / FEATURES, version)
    some = random.permutation(ACCOUNTS)[:50]
    found, _ = reader.embeddings("customer", [f"a{k:07d}" for k in some])
    np.testing.assert_array_equal(found, matrix[some])
    # The embeddings are there once, and a later training does not write into those that are served.
    kept = place / "model" / EMBEDDINGS
    assert kept.stat().st_ino == (model / EMBEDDINGS).stat().st_ino
    content = kept.read_bytes()
    head = StoredHead(levels=np.array(LEVELS), default_embedding=np.zeros(WIDTH, np.float32))
    later = {"customer": Served(np.array(["b"]), matrix[:1], head)}
    write_served(later, model, recipe="joint_gnn", describe={}, corrections={}, metrics={})
    assert kept.read_bytes() == content
