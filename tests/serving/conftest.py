"""A small campaign with real stores, and both services running over it."""

import json
import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import httpx
import numpy as np
import pandas as pd
import pytest
from prometheus_client.parser import text_string_to_metric_families

from serving.local.launch import Deployment, Service, free_port, start_ledger, start_predictor
from shadowprice.campaign import SIDES, Budget, Campaign, Terms
from shadowprice.graphs.scaling import Scaling
from shadowprice.limits import Cap, GroupBudget, Limits, Rule
from shadowprice.limits.attributes import columns_file
from shadowprice.pacing.price_store import PriceStore
from shadowprice.price import PriceRecord
from shadowprice.responses.integrity import file_digests
from shadowprice.responses.layers.heads import HazardHead, Head, LinearHead, save_heads
from shadowprice.responses.layers.tower import ServedTower, save_towers

# httpx reads the certificates of the system for every call, which takes longer than the call; no address here has TLS.
httpx._transports.default.create_ssl_context = cache(httpx._transports.default.create_ssl_context)

WIDTH = 6
ACCOUNTS = 120
MODEL = "test-model-1"
APPS = 'has(context.c_channel) && context.c_channel == "app"'
KIOSKS = 'has(partner.c_kind) && partner.c_kind == "kiosk" && offer.incentive > 80'


def make_campaign(**changes) -> Campaign:
    """Customers may be given nothing; merchants are always paid something, for certain."""
    values = {
        "name": "spring",
        "sides": {
            "customer": Terms(levels=(0, 50, 80, 130)),
            "merchant": Terms(levels=(20, 60, 100), cost_basis="on_grant", weight=0.5),
        },
        "budget": Budget(form="total", limit=100_000_000),
        "starts_at": datetime(2024, 5, 1, tzinfo=UTC),
    }
    return Campaign(**(values | changes))


def make_heads(seed: int = 0) -> dict[str, Head]:
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return rng.normal(scale=0.4, size=shape).astype(np.float32)

    return {
        "customer": HazardHead(
            levels=np.array([0, 50, 80, 130]),
            weight=draw(4, WIDTH),
            bias=draw(4) - 0.5,
            default_embedding=draw(WIDTH),
            base_weight=draw(WIDTH),
            base_bias=-2.0,
        ),
        "merchant": LinearHead(
            levels=np.array([20, 60, 100]),
            slope_weight=draw(WIDTH),
            slope_bias=-0.5,
            base_weight=draw(WIDTH),
            base_bias=0.8,
            default_embedding=draw(WIDTH),
        ),
    }


def make_price(version: int = 1, price: float = 0.004, **changes) -> PriceRecord:
    now = datetime.now(UTC)
    values = {
        "campaign": "spring",
        "version": version,
        "slot": version,
        "prices": {"budget": price},
        "tie_share": 0.4,
        "status": "optimal",
        "primal": 10.0,
        "dual": 10.0,
        "gap": 1e-9,
        "violation": -1e-4,
        "pacing_error": -0.03,
        "seconds": 0.25,
        "spend_ratio": 0.9,
        "spent": 0,
        "remaining": 1000,
        "sample_rows": 10,
        "model_version": MODEL,
        "solved_at": now,
        "expires_at": now + timedelta(hours=2),
    }
    return PriceRecord(**(values | changes)).sealed()


def make_embeddings(seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frames = [
        pd.DataFrame(
            {
                "account_id": [f"{side[0]}{number}" for number in range(ACCOUNTS)],
                "side": side,
                "computed_at": pd.Timestamp(datetime.now(UTC) - timedelta(minutes=5)),
                "embedding": list(rng.normal(size=(ACCOUNTS, WIDTH)).astype(np.float32)),
            }
        )
        for side in SIDES
    ]
    return pd.concat(frames, ignore_index=True)


def write_campaign(campaign: Campaign, path: Path) -> Path:
    path.write_text(json.dumps(campaign.to_dict()))
    return path


def make_towers(seed: int = 2) -> dict[str, ServedTower]:
    """Customers' requests have a basket, a channel and a merchant."""
    rng = np.random.default_rng(seed)
    names = ("x_basket", "c_channel=app", "c_channel=web")
    context = Scaling(
        names, np.zeros(3, bool), np.array([0.5, 0.4, 0.6], np.float32), np.ones(3, np.float32), np.zeros(3, bool)
    )

    def draw(*shape):
        return rng.normal(scale=0.5, size=shape).astype(np.float32)

    hidden = 9
    tower = ServedTower(
        context=context,
        partner=True,
        hidden_weight=draw(hidden, 2 * WIDTH + 3),
        hidden_bias=draw(hidden),
        out_weight=draw(WIDTH, hidden),
        out_bias=draw(WIDTH),
        default_own=draw(WIDTH),
    )
    return {"customer": tower}


def write_model(
    heads: dict[str, Head], folder: Path, version: str = MODEL, towers: dict[str, ServedTower] | None = None
) -> Path:
    save_heads(heads, folder)
    save_towers(towers or {}, folder)
    (folder / "model.json").write_text(json.dumps({"model_version": version, "files": file_digests(folder)}))
    return folder


def write_features(frame: pd.DataFrame, folder: Path) -> Path:
    from feature_repo.columns import FeatureColumns
    from feature_repo.online import publish_embeddings
    from feature_repo.store import create

    columns = FeatureColumns(profile=dict.fromkeys(SIDES, ("x_age",)), embedding_width=WIDTH, model_versions=(MODEL,))
    publish_embeddings(create(folder, columns), frame, progress=False)
    return folder


class World:
    """One campaign with its stores and both services; the ledger may be restarted."""

    def __init__(self, run: Path, apps: int = 100_000_000, caps: tuple[Cap, ...] = ()) -> None:
        limits = Limits(
            budgets=(
                GroupBudget(name="customers", limit=100_000_000, side="customer", period="day"),
                GroupBudget(name="apps", limit=apps, where=APPS),
            ),
            caps=caps,
        )
        self.campaign = make_campaign(limits=limits, rules=(Rule(name="kiosks", expression=KIOSKS, side="customer"),))
        kinds = pd.DataFrame({"account_id": ["m1", "m2"], "c_kind": ["kiosk", "bar"]})
        kinds.to_parquet(run / columns_file("merchant"))
        self.coverage = self.campaign.coverage().reading(run)
        self.heads = make_heads()
        self.towers = make_towers()
        self.embeddings = make_embeddings()
        drawn = np.random.default_rng(3).normal(size=(len(self.embeddings), WIDTH)).astype(np.float32)
        has = self.embeddings["side"] == "customer"
        self.embeddings["own"] = [own if tower else None for own, tower in zip(drawn, has, strict=True)]
        self.deployment = Deployment.of_run(run, write_campaign(self.campaign, run / "campaign.json"))
        write_model(self.heads, self.deployment.model_dir, towers=self.towers)
        write_features(self.embeddings, self.deployment.features_dir)
        self.prices = PriceStore(self.deployment.prices_dir)
        self._ledger_port = free_port()
        self.grpc_port = free_port()
        self.ledger = start_ledger(self.deployment, self._ledger_port)
        self._predictor_port = free_port()
        self.predictor = self._start_predictor()
        self.price: PriceRecord | None = None

    def _start_predictor(self) -> Service:
        given = {"SHADOWPRICE_GRPC_PORT": str(self.grpc_port), "SHADOWPRICE_MODEL_NAME": "spring-2027"}
        os.environ.update(given)
        try:
            return start_predictor(self.deployment, self._predictor_port, self.ledger.url)
        finally:
            for name in given:
                del os.environ[name]

    def publish(self, **changes) -> PriceRecord:
        """Publish the next price and wait until it is in force."""
        version = max(self.prices.versions("spring"), default=0) + 1
        self.price = self.prices.publish(make_price(version, **changes))
        for _ in range(500):
            metrics = httpx.get(f"{self.predictor.url}/metrics").text
            if f'shadowprice_price_version{{campaign="spring"}} {float(version)}' in metrics:
                return self.price
        raise AssertionError(f"price {version} did not come into force: {self.predictor.tail()}")

    def restart_ledger(self) -> None:
        self.ledger.stop()
        self.ledger = start_ledger(self.deployment, self._ledger_port)
        self.ledger.wait_ready(30.0)

    def kill_ledger(self) -> None:
        self.ledger.process.kill()
        self.ledger.process.wait()
        self.restart_ledger()

    def kill_predictor(self) -> None:
        self.predictor.process.kill()
        self.predictor.process.wait()
        self.predictor = self._start_predictor()
        self.predictor.wait_ready(240.0)

    def stop(self) -> None:
        self.predictor.stop()
        self.ledger.stop()


@pytest.fixture(scope="session")
def unready_answers() -> dict[str, tuple[int, dict]]:
    """What the predictor answered while there was no price yet; filled by ``world``."""
    return {}


@pytest.fixture(scope="session")
def world(tmp_path_factory, unready_answers) -> Iterator[World]:
    os.environ["SHADOWPRICE_POLL_SECONDS"] = "0.02"
    world = World(tmp_path_factory.mktemp("run"))
    try:
        world.ledger.wait_ready(120.0)
        wait_until_waiting_for_a_price(world.predictor)
        body = {"instances": [{"request_id": "early", "account_id": "c1", "side": "customer"}]}
        for name, method, path, content in (
            ("server", "GET", "/v2/health/ready", None),
            ("model", "GET", "/v2/models/spring/ready", None),
            ("live", "GET", "/v2/health/live", None),
            ("predict", "POST", "/v1/models/spring:predict", body),
        ):
            answer = httpx.request(method, world.predictor.url + path, json=content)
            unready_answers[name] = (answer.status_code, answer.json())
        world.publish()
        world.predictor.wait_ready(120.0)
        yield world
    finally:
        world.stop()
        os.environ.pop("SHADOWPRICE_POLL_SECONDS", None)


@pytest.fixture(scope="session")
def limited_world(tmp_path_factory) -> Iterator[World]:
    """Serve a campaign with caps of accounts and partners, and a budget of a group that is soon spent."""
    os.environ["SHADOWPRICE_POLL_SECONDS"] = "0.02"
    caps = (
        Cap(name="often", per="account", count=3, period="day"),
        Cap(name="much", per="account", amount=230),
        Cap(name="shop", per="partner", amount=450, side="customer"),
    )
    world = World(tmp_path_factory.mktemp("limited"), apps=1_200, caps=caps)
    try:
        world.ledger.wait_ready(120.0)
        world.prices.publish(make_price())
        world.predictor.wait_ready(240.0)
        yield world
    finally:
        world.stop()
        os.environ.pop("SHADOWPRICE_POLL_SECONDS", None)


def wait_until_waiting_for_a_price(predictor: Service) -> None:
    """Everything else is warm by then."""
    for _ in range(1800):
        if "there is no price" in predictor.tail():
            return
        assert predictor.process.poll() is None, predictor.tail()
        time.sleep(0.1)
    raise AssertionError(predictor.tail())


@pytest.fixture(scope="session")
def samples() -> Callable[[str], dict[tuple[str, tuple[tuple[str, str], ...]], float]]:
    """Address of a service → (name, sorted labels) of what it exports → value."""

    def read(url: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(httpx.get(f"{url}/metrics").text)
            for sample in family.samples
        }

    return read


@pytest.fixture(scope="session")
def kit() -> SimpleNamespace:
    """The builders above; this folder is not a package that tests could import."""
    return SimpleNamespace(
        campaign=make_campaign,
        heads=make_heads,
        towers=make_towers,
        price=make_price,
        embeddings=make_embeddings,
        write_campaign=write_campaign,
        write_model=write_model,
        write_features=write_features,
        width=WIDTH,
        model=MODEL,
    )


@pytest.fixture
def campaign() -> Campaign:
    return make_campaign()


@pytest.fixture
def heads() -> dict[str, Head]:
    return make_heads()
