"""Registering a model: kept once and for all under its version, and pointed to at once."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import redis

from feature_repo.columns import FeatureColumns, read_columns
from feature_repo.names import project_of
from feature_repo.online import OnlineReader, publish_price, read_price
from feature_repo.store import create, open_store
from operations.common.workspace import CAMPAIGN, FEATURES, override_in, read_campaign
from operations.register import RegisterJob, run
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.errors import Conflict, InvalidInput
from shadowprice.evaluation.policy.gate import gate
from shadowprice.evaluation.policy.mending import Override
from shadowprice.learning.bundle import EMBEDDINGS
from shadowprice.pacing.price_store import PriceStore
from shadowprice.price import PriceRecord
from shadowprice.reports.data import ReportData
from shadowprice.responses.integrity import file_digests
from shadowprice.responses.layers.heads import StoredHead, load_heads, save_heads
from shadowprice.storage import to_json

LEVELS = (0, 50)


def register(model, workspace):
    return run(RegisterJob(model=model, workspace=workspace))


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
    told = tmp_path / "registered"
    run(RegisterJob(model=second, workspace=workspace, registered=told))
    assert (workspace / "model").resolve().name == json.loads(told.read_text())["model_version"] == "m-2"
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


@pytest.mark.parametrize("online", ["sqlite", "redis"])
def test_an_online_store_that_is_lost_is_rebuilt_as_the_page_on_recovery_says(online, request, workspace, tmp_path):
    folder = workspace / FEATURES
    if online == "redis":
        server = request.getfixturevalue("redis_server")
        create(folder, read_columns(folder), "redis", project_of(read_campaign(workspace)))
    register(write_bundle(tmp_path / "first", "m-1", 0.25), workspace)
    prices = PriceStore(workspace / "prices")
    solved = datetime(2026, 3, 2, tzinfo=UTC)
    for version in (1, 2):
        record = PriceRecord(
            campaign="spring",
            version=version,
            slot=version,
            prices={"budget": 0.5 / version},
            tie_share=0.0,
            status="optimal",
            primal=1.0,
            dual=1.0,
            gap=0.0,
            violation=0.0,
            spent=0,
            remaining=1,
            sample_rows=1,
            model_version="m-1",
            solved_at=solved,
            expires_at=solved,
        )
        publish_price(open_store(folder), prices.publish(record.sealed()))

    def served():
        reader = OnlineReader(folder, "m-1")
        return read_price(open_store(folder), "spring"), reader.embeddings("customer", ["a"])[0].tolist()

    before = served()
    assert (before[0].version, before[1]) == (2, [[0.25, 0.25]])
    if online == "redis":
        with redis.Redis(port=server.port) as connection:
            connection.flushall()
        lost = served()
        assert (lost[0], np.isnan(lost[1]).all()) == (None, True)
    else:
        for path in (*folder.glob("online.db*"), folder / "registry.db"):
            path.unlink()
    page = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "restore.md").read_text()
    commands = re.findall(r"```python\n(.*?)```", page, flags=re.S)
    assert len(commands) == 2
    for command in commands:
        exec(compile(command.replace("runs/latest", str(workspace)), "restore.md", "exec"), {})
    assert served() == before


def write_evaluation(path, override=None):
    """Write the JSON of an evaluation that the gate refuses."""
    candidate = {"customer": {"auc": 0.49, "ece": 0.01, "base_rate": 0.2, "rpr": 0.0}}
    part = ReportData(
        title="Evaluation of m-1",
        dataset="own",
        created_at=datetime(2026, 3, 2, tzinfo=UTC),
        simulated=False,
        gate=gate(candidate).overridden(Override.of(override or {})),
    )
    path.write_text(to_json(part))
    return path


def test_a_model_that_the_gate_refuses_is_registered_only_by_an_override_that_stays_with_it(workspace, tmp_path):
    model = write_bundle(tmp_path / "first", "m-1", 0.25)
    refused = write_evaluation(tmp_path / "refused.json")
    with pytest.raises(Conflict, match=r"the gate refuses model m-1: customer: AUC above 0\.5"):
        run(RegisterJob(model=model, workspace=workspace, evaluation=refused))
    assert not (workspace / "models").exists()
    override = {"reason": "first week of a trial", "by": "Ada"}
    run(RegisterJob(model=model, workspace=workspace, evaluation=write_evaluation(tmp_path / "taken.json", override)))
    kept = json.loads((workspace / "model" / "model.json").read_text())
    assert kept["gate"]["override"] == override
    assert [reason.split(",")[0] for reason in kept["gate"]["broken"]] == ["customer: AUC above 0.5 by its lower bound"]
    assert override_in(workspace, "m-1") == override
    assert override_in(workspace, "m-2") is None
    with pytest.raises(InvalidInput, match="not the JSON of an evaluation"):
        run(RegisterJob(model=model, workspace=workspace, evaluation=model / EMBEDDINGS))
