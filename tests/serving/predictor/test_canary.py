"""A predictor follows the canary of its workspace: from its first price to its end."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry

from serving.predictor.active import ServedModel
from serving.predictor.metrics import PredictorMetrics
from serving.predictor.price_watcher import PriceWatcher
from shadowprice.errors import NotFound
from shadowprice.pacing.canary import FILE, PRICES, Canary
from shadowprice.pacing.price_store import PriceStore
from shadowprice.watch.finding import SAMPLE_RATIO, Finding
from shadowprice.watch.verdict import Verdict

CANARY = Canary(
    campaign="spring",
    model_version="m2",
    incumbent="test-model-1",
    stage=0,
    share=4000,
    since=datetime(2026, 3, 1, tzinfo=UTC),
    prices={"budget": 0.004},
)


@pytest.fixture
def followed(tmp_path, kit):
    models = {version: ServedModel(version, {}, None) for version in (kit.model, "m2")}  # type: ignore[arg-type]

    def load(version: str) -> ServedModel:
        if version not in models:
            raise NotFound(f"no model {version!r}")
        return models[version]

    shares: list[float] = []
    metrics = PredictorMetrics(kit.campaign(), CollectorRegistry())
    metrics.canary_share = shares.append  # type: ignore[method-assign]
    watcher = PriceWatcher(
        PriceStore(tmp_path / "prices"),
        kit.campaign(),
        load_model=load,
        metrics=metrics,
        poll_seconds=0.01,
        workspace=tmp_path,
    )
    PriceStore(tmp_path / "prices").publish(kit.price(1))
    return tmp_path, watcher, shares


def test_a_canary_begins_with_its_first_price_grows_and_ends_with_its_file(followed, kit) -> None:
    workspace, watcher, shares = followed
    trial = replace(CANARY, incumbent=kit.model)
    trial.write(workspace)
    watcher.poll()
    assert watcher.current.beside is None
    prices = PriceStore(workspace / "prices" / PRICES)
    prices.publish(replace(kit.price(1, price=0.003), model_version="m2").sealed())
    watcher.poll()
    assert watcher.current.beside.pair.model.version == "m2"
    assert watcher.current.beside.pair.price.prices["budget"] == 0.003
    replace(trial, stage=1, share=9000).write(workspace)
    PriceStore(workspace / "prices").publish(kit.price(2))
    watcher.poll()
    assert (watcher.current.price.version, watcher.current.beside.canary.share) == (2, 9000)
    # The model on trial becomes the served one: it decides alone.
    PriceStore(workspace / "prices").publish(replace(kit.price(3), model_version="m2").sealed())
    watcher.poll()
    assert (watcher.current.model.version, watcher.current.beside) == ("m2", None)
    assert shares == [0.4, 0.9, 0.0]


@pytest.mark.parametrize("wrong", ["not json", "unknown model"])
def test_a_canary_that_cannot_be_served_decides_for_nobody(followed, kit, wrong) -> None:
    workspace, watcher, shares = followed
    if wrong == "not json":
        (workspace / FILE).write_text("{")
    else:
        replace(CANARY, model_version="m9").write(workspace)
        PriceStore(workspace / "prices" / PRICES).publish(replace(kit.price(1), model_version="m9").sealed())
    watcher.poll()
    assert watcher.current.price.version == 1
    assert watcher.current.beside is None
    assert shares == []


def test_the_alarm_of_the_watch_is_followed_where_the_campaign_explores_more_then(followed, kit) -> None:
    workspace, watcher, _ = followed
    finding = Finding("calibration", "customer", 0, 9.0, 5.0, True, 500, 3, "customer, level 0.")
    arms = replace(finding, check=SAMPLE_RATIO, side="all")

    def alarmed(model: str, found: Finding) -> bool:
        at = datetime.now(UTC)
        Verdict(campaign="spring", model_version=model, requests=1, written_at=at, findings=(found,)).write(
            workspace / "watch.json"
        )
        watcher.poll()
        return watcher.current.alarmed

    assert not alarmed(kit.model, finding)
    watcher._campaign = replace(watcher._campaign, alarm_exploration=0.3)
    assert alarmed(kit.model, finding)
    assert not alarmed(kit.model, arms)
    assert not alarmed("m2", finding)
    assert alarmed(kit.model, finding)
    (workspace / "watch.json").unlink()
    watcher.poll()
    assert not watcher.current.alarmed
