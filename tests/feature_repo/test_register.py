"""Registering a model: kept once and for all under its version, and pointed to at once."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from feature_repo.columns import FeatureColumns
from feature_repo.featurize import project_of
from feature_repo.online import OnlineReader
from feature_repo.register import register
from feature_repo.store import create
from feature_repo.workspace import CAMPAIGN, FEATURES
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.errors import Conflict
from shadowprice.learning.bundle import EMBEDDINGS
from shadowprice.responses.heads import StoredHead, load_heads, save_heads
from shadowprice.responses.integrity import file_digests

LEVELS = (0, 50)


def write_bundle(folder, version, value):
    head = StoredHead(levels=np.array(LEVELS), default_embedding=np.full(2, value, np.float32))
    save_heads({"customer": head}, folder)
    meta = {"model_version": version, "files": file_digests(folder)}
    (folder / "model.json").write_text(json.dumps(meta))
    (folder / "checkpoint").mkdir(exist_ok=True)
    pd.DataFrame(
        {
            "account_id": ["a"],
            "side": "customer",
            "computed_at": pd.Timestamp("2026-03-02", tz="UTC"),
            "embedding": [np.full(2, value, np.float32)],
        }
    ).to_parquet(folder / EMBEDDINGS)
    return folder


@pytest.fixture
def workspace(tmp_path):
    campaign = Campaign(
        name="spring",
        sides={"customer": Terms(levels=LEVELS)},
        budget=Budget(limit=100),
        starts_at=datetime(2024, 5, 1, tzinfo=UTC),
    )
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / CAMPAIGN).write_text(json.dumps(campaign.to_dict()))
    columns = FeatureColumns(profile={"customer": ("x_age",)}, embedding_width=2)
    create(folder / FEATURES, columns, project=project_of(campaign))
    return folder


def test_a_registered_model_never_changes_and_the_link_points_to_the_newest(workspace, tmp_path):
    first = write_bundle(tmp_path / "first", "m-1", 0.25)
    second = write_bundle(tmp_path / "second", "m-2", 0.5)
    assert register(first, workspace) == "m-1"
    kept = (workspace / "model").resolve()
    assert kept == (workspace / "models" / "m-1").resolve()
    assert sorted(path.name for path in kept.iterdir()) == [EMBEDDINGS, "heads.safetensors", "model.json"]
    register(second, workspace)
    assert (workspace / "model").resolve().name == "m-2"
    assert load_heads(kept)["customer"].default_embedding[0] == 0.25  # who resolved the link before still reads it
    register(first, workspace)  # a roll-back
    assert (workspace / "model").resolve() == kept
    assert OnlineReader(workspace / FEATURES, "m-1").embeddings("customer", ["a"])[0].tolist() == [[0.25, 0.25]]
    left = {path.name for path in workspace.iterdir()} | {path.name for path in (workspace / "models").iterdir()}
    assert not [name for name in left if name.startswith(".")]


def test_another_model_under_a_version_that_is_taken_is_refused(workspace, tmp_path):
    register(write_bundle(tmp_path / "first", "m-1", 0.25), workspace)
    with pytest.raises(Conflict, match="another model"):
        register(write_bundle(tmp_path / "second", "m-1", 0.5), workspace)
    assert load_heads(workspace / "model")["customer"].default_embedding[0] == 0.25


def test_a_folder_where_the_link_should_be_makes_way(workspace, tmp_path):
    write_bundle(workspace / "model", "m-0", 0.1)
    register(write_bundle(tmp_path / "first", "m-1", 0.25), workspace)
    assert (workspace / "model").resolve().name == "m-1"
