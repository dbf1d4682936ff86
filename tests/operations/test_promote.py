"""Job ``promote``: the steps of a canary follow its log, and each is written down."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from served_log import CAMPAIGN, START, write_log

from feature_repo.columns import FeatureColumns
from feature_repo.names import project_of
from feature_repo.store import create
from operations import __main__ as command
from operations.common.workspace import CANARY_LOG, FEATURES, MODEL, VERSIONS
from operations.promote import PromoteJob, run
from operations.register import RegisterJob
from operations.register import run as register
from shadowprice.arms import CANARY
from shadowprice.errors import InvalidInput, NotFound
from shadowprice.experiments.trial_stage import Stage, judge_stage
from shadowprice.learning.bundle import EMBEDDINGS, META, read_meta
from shadowprice.pacing.canary import FILE, Canary
from shadowprice.pacing.decision_log.segments import SCHEMAS, Segment
from shadowprice.pacing.price_store import PriceStore
from shadowprice.price import PriceRecord
from shadowprice.responses.integrity import file_digests
from shadowprice.responses.layers.heads import StoredHead, save_heads

TRIAL = Canary(
    campaign="spring",
    model_version="m2",
    incumbent="m1",
    stage=0,
    share=100,
    since=START,
    prices={"budget": 0.002},
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A campaign of which a tenth of the policy's and the unassigned accounts are answered by a canary."""
    place = tmp_path / "workspace"
    place.mkdir()
    (place / "campaign.json").write_text(json.dumps(CAMPAIGN.to_dict()))
    TRIAL.write(place)
    return place


def canary_log(folder: Path, gain: float) -> None:
    """A log in which the canary's requests bring ``gain`` more responses per request."""
    rng = np.random.default_rng(3)
    write_log(folder)
    (decisions,) = folder.glob("decisions*")
    frame = pd.read_parquet(decisions)
    eligible = frame["arm"].isin(["policy", "unassigned"]).to_numpy()
    chosen = eligible & (frame["account_id"].map(hash_place).to_numpy() < 0.4)
    frame["arm"] = np.where(chosen, CANARY, frame["arm"])
    pq.write_table(pa.Table.from_pandas(frame, schema=SCHEMAS["decisions"], preserve_index=False), decisions)
    (outcomes,) = folder.glob("outcomes*")
    told = pd.read_parquet(outcomes)
    own = told["request_id"].isin(frame.loc[chosen, "request_id"])
    if gain < 0:
        told = told[~(own & (rng.random(len(told)) < -gain))]
    told.loc[own, "response"] = 1.0 + max(gain, 0.0)
    (folder / outcomes.name).unlink()
    pq.write_table(
        pa.Table.from_pandas(told, schema=SCHEMAS["outcomes"], preserve_index=False),
        Segment.named(folder, "outcomes", 1, len(told)).path,
    )


def hash_place(name: str) -> float:
    return int(name[1:]) * 0.6180339887 % 1.0


def history(workspace: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (workspace / CANARY_LOG).read_text().splitlines()]


def test_a_worse_canary_is_rolled_back_and_a_better_one_grows(workspace: Path, tmp_path: Path) -> None:
    canary_log(tmp_path / "worse", -0.6)
    canary_log(tmp_path / "better", 0.8)
    page = tmp_path / "page.md"
    assert run(PromoteJob(workspace=workspace, log=tmp_path / "better", mature_hours=0, page=page)) == "grow"
    grown = Canary.read(workspace, "spring")
    assert grown is not None
    assert (grown.stage, grown.share) == (1, 1000)
    assert grown.since > datetime.now(UTC) - timedelta(minutes=1)
    (told,) = history(workspace)
    assert told["money_at_risk"] == 10**6 * 1000 // 10_000
    assert "Money at risk, its share of the budget: $1,000.00." in page.read_text()
    # Nothing has happened in the new stage yet.
    assert run(PromoteJob(workspace=workspace, log=tmp_path / "better", mature_hours=0)) == "wait"
    TRIAL.write(workspace)
    flags = ["--workspace", str(workspace), "--log", str(tmp_path / "worse"), "--mature-hours", "0"]
    assert command.main(["promote", *flags]) == 0
    assert not (workspace / FILE).exists()
    assert [each["step"] for each in history(workspace)] == ["grow", "wait", "roll back"]
    assert history(workspace)[-1]["reason"] == "the canary is worse"
    job = PromoteJob(workspace=workspace, log=tmp_path / "worse", mature_hours=0, back_on_alarm=False)
    assert run(job) == "none"


def test_money_at_risk_is_of_the_limit_that_moves_have_left(workspace: Path, tmp_path: Path) -> None:
    canary_log(tmp_path / "log", 0.8)
    figures = {"tie_share": 1.0, "primal": 1.0, "dual": 1.0, "gap": 0.0, "violation": 0.0, "spent": 100_000}
    figures |= {"remaining": 400_000, "sample_rows": 5, "version": 1, "slot": 1}
    times = {"solved_at": START, "expires_at": START + timedelta(hours=2)}
    price = PriceRecord(
        campaign="spring", prices={"budget": 0.01}, status="optimal", model_version="m1", **figures, **times
    )
    PriceStore(workspace / "prices").publish(price.sealed())
    assert run(PromoteJob(workspace=workspace, log=tmp_path / "log", mature_hours=0)) == "grow"
    assert history(workspace)[-1]["money_at_risk"] == 500_000 * 1000 // 10_000


def write_model(folder: Path, version: str) -> Path:
    """A bundle with one embedding."""
    head = StoredHead(levels=np.array([0, 50, 100]), default_embedding=np.full(3, 0.25, np.float32))
    save_heads({"customer": head}, folder)
    (folder / META).write_text(json.dumps({"model_version": version, "files": file_digests(folder)}))
    row = {"account_id": ["a"], "side": "customer", "computed_at": pd.Timestamp("2026-03-02", tz="UTC")}
    pd.DataFrame(row | {"embedding": [np.full(3, 0.25, np.float32)]}).to_parquet(folder / EMBEDDINGS)
    return folder


@pytest.fixture
def registered(workspace: Path, tmp_path: Path) -> Path:
    """The workspace with the incumbent as its model; the bundle of the model on trial is ``m2`` beside it."""
    columns = FeatureColumns(profile={"customer": ("x_age",)}, embedding_width=3)
    create(workspace / FEATURES, columns, project=project_of(CAMPAIGN))
    register(RegisterJob(model=write_model(tmp_path / "m1", "m1"), workspace=workspace))
    write_model(tmp_path / "m2", "m2")
    return workspace


def test_a_promotion_that_was_interrupted_goes_on_and_ends(registered: Path, tmp_path: Path) -> None:
    canary_log(tmp_path / "log", 0.8)
    job = PromoteJob(workspace=registered, log=tmp_path / "log", mature_hours=0)
    replace(TRIAL, stage=1, share=1000).write(registered)
    with pytest.raises(NotFound):  # the bundle cannot be read now
        run(job)
    promoted = Canary.read(registered, "spring")
    assert promoted is not None
    assert promoted.promoted
    with pytest.raises(NotFound):
        run(job)
    (registered / VERSIONS / "m2").symlink_to(tmp_path / "m2")
    assert run(job) == "promote"
    assert read_meta(registered / MODEL)["model_version"] == "m2"
    assert history(registered)[-1]["incumbent"] == "m1"
    # The canary decides for everybody until the first price of its model.
    assert run(job) == "wait"
    assert (registered / FILE).exists()
    assert [each["step"] for each in history(registered)] == ["promote"]
    register(RegisterJob(model=registered / VERSIONS / "m1", workspace=registered))
    assert run(job) == "none"
    assert not (registered / FILE).exists()


def test_a_shorter_list_of_stages_ends_with_the_stage_that_runs(registered: Path, tmp_path: Path) -> None:
    canary_log(tmp_path / "log", 0.8)
    write_model(registered / VERSIONS / "m2", "m2")
    replace(TRIAL, stage=1, share=1000).write(registered)
    job = PromoteJob(workspace=registered, log=tmp_path / "log", mature_hours=0, stages=("500:-0.2",))
    assert run(job) == "promote"
    assert read_meta(registered / MODEL)["model_version"] == "m2"


@pytest.mark.parametrize("stages", [["100"], ["1000:0", "100:0"], ["10000:0"], ["100:-2"], []])
def test_stages_that_cannot_be_are_refused(workspace: Path, tmp_path: Path, stages: list[str]) -> None:
    with pytest.raises(InvalidInput, match="stages"):
        run(PromoteJob(workspace=workspace, log=tmp_path, stages=tuple(stages)))


def test_an_equal_canary_is_promoted_in_no_more_trials_than_stated() -> None:
    """Daily interim analyses of 60 equal canaries and of 20 that bring half."""
    rng = np.random.default_rng(11)
    steps: dict[float, list[str]] = {1.0: [], 0.5: []}
    for effect, trials in ((1.0, 60), (0.5, 20)):
        for _ in range(trials):
            arm = np.where(rng.random(900) < 0.3, CANARY, "unassigned")
            value = (rng.random(900) < np.where(arm == CANARY, 0.3 * effect, 0.3)).astype(float)
            rows = pd.DataFrame({"account_id": np.arange(900), "arm": arm, "value": value, "cost": 0, "net": value})
            verdict = judge_stage(rows.assign(day=np.arange(900) // 150), Stage(3000, 0.0), level=0.9, most_days=100)
            steps[effect].append(verdict.step)
    # One-sided 5 % at all six analyses together; 9 is its 99.9 % quantile of 60.
    assert steps[1.0].count("grow") <= 9
    assert steps[0.5].count("grow") == 0
    assert steps[0.5].count("roll back") >= 15
    undecided = judge_stage(rows.assign(day=100), Stage(3000, 0.9), level=0.9, most_days=100)
    assert undecided.step == "roll back"
