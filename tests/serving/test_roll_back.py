"""Model and price go forward and back together, by the commands of docs/how-to/upgrade.md."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from kfp.dsl import Artifact, Markdown, Metrics
from prometheus_client import CollectorRegistry

from components.publish import publish
from components.solve import solve as step
from feature_repo.columns import FeatureColumns
from feature_repo.names import project_of
from feature_repo.online import OnlineReader, read_price
from feature_repo.store import create, open_store
from operations.__main__ import main as operation
from operations.common.workspace import CAMPAIGN, FEATURES, PRICE
from operations.publish import PublishJob
from operations.publish import run as publish_job
from operations.register import RegisterJob
from operations.register import run as register
from operations.solve import SolveJob
from operations.solve import run as solve
from serving import resolve
from serving.predictor.bundle import Bundle
from serving.predictor.features import Features
from serving.predictor.metrics import PredictorMetrics
from serving.predictor.models import Models
from serving.predictor.price_watcher import PriceWatcher
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.errors import NotFound
from shadowprice.learning.bundle import EMBEDDINGS
from shadowprice.pacing.forecast import Profile
from shadowprice.pacing.history import Traffic
from shadowprice.pacing.price_store import PriceStore
from shadowprice.pacing.replay.day import Accounts
from shadowprice.pacing.spend import SpendReport
from shadowprice.pacing.state import PricingState
from shadowprice.price import PriceRecord
from shadowprice.responses.integrity import file_digests
from shadowprice.responses.layers.heads import StoredHead, save_heads
from shadowprice.watch.finding import Finding
from shadowprice.watch.verdict import Verdict

LEVELS = (0, 50)
NAMES = ["a", "b", "c", "d"]


def bundle(folder: Path, version: str, gain: float) -> Path:
    """A model by which the incentive adds ``gain`` to everybody's response."""
    head = StoredHead(levels=np.array(LEVELS), default_embedding=np.array([0.1, 0.1 + gain], np.float32))
    save_heads({"customer": head}, folder)
    meta = {"model_version": version, "files": file_digests(folder)}
    (folder / "model.json").write_text(json.dumps(meta))
    embeddings = [np.array([0.1, 0.1 + gain * share], np.float32) for share in (0.5, 0.8, 1.0, 1.2)]
    columns = {"account_id": NAMES, "side": "customer", "computed_at": pd.Timestamp("2026-03-02", tz="UTC")}
    pd.DataFrame(columns | {"embedding": embeddings}).to_parquet(folder / EMBEDDINGS)
    return folder


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A campaign that opens tomorrow, so that its price may be solved again and again."""
    return make_workspace(tmp_path, datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(days=1))


def make_workspace(tmp_path: Path, starts_at: datetime) -> Path:
    campaign = Campaign(
        name="spring", sides={"customer": Terms(levels=LEVELS)}, budget=Budget(limit=1000), starts_at=starts_at
    )
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / CAMPAIGN).write_text(json.dumps(campaign.to_dict()))
    past = Accounts(np.array(NAMES), np.ones(len(NAMES)))
    Traffic({"customer": Profile(np.ones(24), 240.0)}, {"customer": past}).save(folder)
    columns = FeatureColumns(profile={"customer": ("x_age",)}, embedding_width=2)
    create(folder / FEATURES, columns, project=project_of(campaign))
    return folder


@pytest.fixture
def command() -> Callable[..., int]:
    def run(main: Callable[..., int], *arguments: object) -> int:
        return main(list(map(str, arguments)))

    return run


def test_a_roll_back_of_the_model_brings_the_price_that_names_it(
    workspace: Path, tmp_path: Path, command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = Campaign.from_dict(json.loads((workspace / CAMPAIGN).read_text()))
    prices = PriceStore(workspace / "prices")

    def release(model: Path) -> None:
        assert command(operation, "register", "--model", model, "--workspace", workspace) == 0
        assert command(resolve.main, "--workspace", workspace) == 0

    release(bundle(tmp_path / "first", "m-1", 0.2))

    def features(found: Bundle) -> Features:
        reader = OnlineReader(workspace / FEATURES, found.model_version)
        return Features(reader, {side: head.default_embedding for side, head in found.heads.items()})

    watcher = PriceWatcher(
        prices,
        campaign,
        load_model=Models(workspace / "model", campaign, features).load,
        metrics=PredictorMetrics(campaign, CollectorRegistry()),
        poll_seconds=1.0,
    )

    def active() -> tuple[int, str, str, float]:
        watcher.poll()
        now = watcher.current
        assert now is not None
        found = now.model.features.read("customer", ["a"]).matrix
        return now.price.version, now.price.model_version, now.model.version, float(found[0, 1])

    assert active() == (1, "m-1", "m-1", pytest.approx(0.2))
    release(bundle(tmp_path / "second", "m-2", 0.6))
    assert active() == (2, "m-2", "m-2", pytest.approx(0.4))
    first, second = (prices.read("spring", version) for version in (1, 2))
    assert first.prices != second.prices

    release(workspace / "models" / "m-1")
    assert active() == (3, "m-1", "m-1", pytest.approx(0.2))
    assert prices.read("spring", 3).prices == pytest.approx(dict(first.prices))
    assert {path.name for path in (workspace / "models").iterdir()} == {"m-1", "m-2"}
    capsys.readouterr()

    # A bundle that is not whole is refused in a line, and all stays.
    (tmp_path / "second" / "model.json").unlink()
    assert command(operation, "register", "--model", tmp_path / "second", "--workspace", workspace) == 1
    told = capsys.readouterr().err
    assert told.startswith("register failed: no model bundle in")
    assert len(told.strip().splitlines()) == 1
    assert active()[:2] == (3, "m-1")


def test_a_pipeline_that_runs_twice_in_an_hour_hands_on_the_price_that_is_there(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path, datetime(2026, 3, 3, tzinfo=UTC))
    register(RegisterJob(model=bundle(tmp_path / "first", "m-1", 0.2), workspace=workspace))
    state, price = tmp_path / "state.json", tmp_path / "price"
    spend = SpendReport(
        spent=100, responses={"customer": 2.0}, requests={"customer": 20}, observed_at=datetime.now(UTC)
    )
    published = []
    for at in (2.25, 2.75, 3.25):
        PricingState(at, spend, {"customer": np.full(24 - int(at), 10.0)}, {"customer": np.array(NAMES)}).save(state)
        made = {"price": Artifact, "metrics": Metrics, "summary": Markdown}
        artifacts = {name: kind(name, uri=str(tmp_path / name)) for name, kind in made.items()}
        step.python_func(workspace=str(workspace), state=Artifact("state", uri=str(state)), **artifacts)
        record = PriceRecord.read(price / "price.json")
        published.append(publish_job(PublishJob(price=price, workspace=workspace)))
        told = artifacts["metrics"].metadata
        assert {name: told[f"price_{name}"] for name in record.prices} == record.prices
        assert (told["spent"], told["remaining"], told["gap"]) == (100, record.remaining, record.gap)
        # The lineage goes on from the price to its model.
        assert artifacts["price"].metadata["model_version"] == "m-1"
        assert told["planned_spend"] == record.plan[-1]
    assert published == [1, 1, 2]
    assert [PriceStore(workspace / "prices").read("spring", version).slot for version in (1, 2)] == [2, 3]


def test_while_the_watch_alarms_on_the_model_the_price_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = make_workspace(tmp_path, datetime(2026, 3, 3, tzinfo=UTC))
    register(RegisterJob(model=bundle(tmp_path / "first", "m-1", 0.2), workspace=workspace))
    state, price = tmp_path / "state.json", tmp_path / "price"
    finding = Finding("calibration", "customer", 0, 9.0, 5.0, True, 500, 3, "customer, level 0.")

    def solved(hour: int, alarm_on: str) -> PriceRecord:
        spent = SpendReport(
            spent=100 * hour,
            responses={"customer": 2.0},
            requests={"customer": 20 * hour},
            observed_at=datetime.now(UTC),
        )
        PricingState(float(hour), spent, {"customer": np.full(24 - hour, 10.0)}, {"customer": np.array(NAMES)}).save(
            state
        )
        verdict = Verdict(
            campaign="spring", model_version=alarm_on, requests=500, written_at=datetime.now(UTC), findings=(finding,)
        )
        verdict.write(workspace / "watch.json")
        found: PriceRecord = solve(SolveJob(state=state, price=price, workspace=workspace, on_alarm="constant"))
        publish_job(PublishJob(price=price, workspace=workspace))
        return found

    first = solved(2, "m-0")
    assert "the watch alarms" not in capsys.readouterr().out
    kept = solved(3, "m-1")
    assert (kept.version, kept.status, kept.slot) == (2, "steered", 3)
    assert (kept.prices, kept.tie_share) == (first.prices, first.tie_share)
    assert kept.expires_at > first.expires_at
    assert "the watch alarms on model m-1: pacer 'constant'" in capsys.readouterr().out
    assert solved(4, "m-0").status != "steered"
    with pytest.raises(NotFound, match="horoscope"):
        solve(SolveJob(state=state, price=price, workspace=workspace, on_alarm="horoscope"))


def test_of_two_pipelines_at_once_both_succeed_and_one_price_is_there(tmp_path: Path) -> None:
    """Those of the hourly schedule and of the last hour's know nothing of each other."""
    workspace = make_workspace(tmp_path, datetime(2026, 3, 3, tzinfo=UTC))
    register(RegisterJob(model=bundle(tmp_path / "first", "m-1", 0.2), workspace=workspace))
    prices = PriceStore(workspace / "prices")

    def solved(at: float) -> Path:
        spent = SpendReport(
            spent=100, responses={"customer": 2.0}, requests={"customer": 20}, observed_at=datetime.now(UTC)
        )
        state, price = tmp_path / f"state-{at}.json", tmp_path / f"price-{at}"
        PricingState(at, spent, {"customer": np.full(24 - int(at), 10.0)}, {"customer": np.array(NAMES)}).save(state)
        solve(SolveJob(state=state, price=price, workspace=workspace))
        return price

    def published(price: Path) -> int:
        return int(publish.python_func(price=SimpleNamespace(path=str(price)), workspace=str(workspace)))

    # Both have solved before either publishes: of one moment, and of the hour and its first five minutes.
    for number, moments in enumerate([(22.04, 22.05), (23.09, 23.04)], 1):
        first, second = map(solved, moments)
        assert (first / PRICE).read_text() != (second / PRICE).read_text()
        assert [published(first), published(second)] == [number, number]
        stored = prices.read("spring", number)
        assert stored.by
        assert replace(stored, by="").sealed().to_json() == (first / PRICE).read_text()
    # The other one has not got as far as the feature store, and never will.
    first, second = map(solved, (23.2, 23.21))
    record = prices.publish(PriceRecord.from_json((first / PRICE).read_text()))
    assert published(second) == record.version == 3
    assert sorted(prices.versions("spring")) == [1, 2, 3]
    assert read_price(open_store(workspace / FEATURES), "spring") == record


def test_prices_go_on_from_the_copy_in_the_feature_store_where_their_folder_was_lost(
    workspace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register(RegisterJob(model=bundle(tmp_path / "first", "m-1", 0.2), workspace=workspace))
    prices, asked = PriceStore(workspace / "prices"), ["--workspace", str(workspace)]

    def solved() -> str:
        assert resolve.main(asked) == 0
        return capsys.readouterr().out

    for _ in range(2):
        assert "lacked" not in solved()
    copy = prices.read("spring", 2)
    # A backup of the folder from before version 2, and then no folder at all.
    (workspace / "prices" / "spring" / "0000000002.json").unlink()
    told = solved()
    assert "prices lacked price version 2 of 'spring': it is restored from the feature store" in told
    assert "published version 3" in told
    assert prices.read("spring", 2) == copy
    shutil.rmtree(workspace / "prices")
    assert "published version 4" in solved()
    assert prices.versions("spring") == [3, 4]
    # A copy that is damaged stops no price of a store that is whole.
    store = open_store(workspace / FEATURES)
    row = pd.read_parquet(workspace / FEATURES / "campaign_price.parquet").tail(1)
    damaged = row["price_record"].str.replace('"tie_share"', '"tied_share"')
    store.write_to_online_store("campaign_price", row.assign(price_record=damaged))
    assert "published version 5" in solved()
    assert read_price(store, "spring") == prices.read("spring", 5)
