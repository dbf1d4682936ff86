"""A campaign with its stores, and processes that serve it: Redis, ledger, predictor, and KServe's trivial predictor."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.child import processor_seconds
from benchmarks.faults.redis_server import RedisServer
from benchmarks.service.load import generate
from serving.local.launch import Deployment, Service, free_port, start_console, start_ledger, start_predictor
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.graphs.scaling import Scaling
from shadowprice.limits import Rule
from shadowprice.pacing.price_store import PriceStore
from shadowprice.price import PriceRecord
from shadowprice.responses.integrity import file_digests
from shadowprice.responses.layers.heads import HazardHead, save_heads
from shadowprice.responses.layers.tower import ServedTower, save_towers

LEVELS = (0, 20, 40, 60, 80, 100, 120, 140, 160, 180)
WIDTH = 64
MODEL = "benchmark-1"
REDIS = "SHADOWPRICE_REDIS"


@dataclass(frozen=True)
class Running:
    """Running services; ``start_seconds`` is the time from the predictor's start until it was ready."""

    predictor: Service
    predictor_grpc: int
    ledger: Service
    trivial: Service | None
    trivial_grpc: int
    start_seconds: float
    console: Service | None = None


@contextmanager
def environment(**values: str) -> Iterator[None]:
    """Set variables for the processes started inside."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def prepare(folder: Path, accounts: int, context: bool = False, rules: tuple[Rule, ...] = ()) -> Deployment:
    """Campaign, model, features of ``accounts`` customers in the online store of the environment, and a price.

    With ``context`` the model has a request tower, which reads a basket and a channel.
    """
    from feature_repo.columns import FeatureColumns
    from feature_repo.online import publish_embeddings
    from feature_repo.store import configured_online, create

    random = np.random.default_rng(0)
    campaign = Campaign(
        name="spring",
        sides={"customer": Terms(levels=LEVELS)},
        budget=Budget(form="total", limit=10**14),
        starts_at=datetime(2024, 5, 1, tzinfo=UTC),
        rules=rules,
    )
    (folder / "campaign.json").write_text(json.dumps(campaign.to_dict()))
    deployment = Deployment.of_run(folder, folder / "campaign.json")

    def draw(*shape: int) -> np.ndarray:
        return random.normal(scale=0.1, size=shape).astype(np.float32)

    head = HazardHead(
        levels=np.array(LEVELS),
        weight=draw(len(LEVELS), WIDTH),
        bias=draw(len(LEVELS)) - np.float32(1.0),
        default_embedding=draw(WIDTH),
        base_weight=draw(WIDTH),
        base_bias=-2.0,
    )
    save_heads({"customer": head}, deployment.model_dir)
    save_towers({"customer": _tower(draw)} if context else {}, deployment.model_dir)
    meta = {"model_version": MODEL, "files": file_digests(deployment.model_dir)}
    (deployment.model_dir / "model.json").write_text(json.dumps(meta))
    frame = pd.DataFrame(
        {
            "account_id": [f"c{number}" for number in range(accounts)],
            "side": "customer",
            "computed_at": pd.Timestamp(datetime.now(UTC)),
            "embedding": list(random.normal(size=(accounts, WIDTH)).astype(np.float32)),
        }
    )
    if context:
        frame["own"] = list(random.normal(size=(accounts, WIDTH)).astype(np.float32))
    columns = FeatureColumns(profile={"customer": ("x_age",)}, embedding_width=WIDTH, model_versions=(MODEL,))
    store = create(deployment.features_dir, columns, online=configured_online())
    publish_embeddings(store, frame, progress=False)
    now = datetime.now(UTC)
    record = PriceRecord(
        campaign="spring",
        version=1,
        slot=0,
        prices={"budget": 0.002},
        tie_share=0.5,
        status="optimal",
        primal=1.0,
        dual=1.0,
        gap=0.0,
        violation=0.0,
        spent=0,
        remaining=10**14,
        sample_rows=accounts,
        model_version=MODEL,
        solved_at=now,
        expires_at=now + timedelta(days=1),
    )
    PriceStore(deployment.prices_dir).publish(record.sealed())
    return deployment


@contextmanager
def serving(
    folder: Path,
    accounts: int,
    settings: Mapping[str, str] | None = None,
    *,
    with_trivial: bool = True,
    with_console: bool = False,
    context: bool = False,
    rules: tuple[Rule, ...] = (),
) -> Iterator[Running]:
    """Start all services, with Redis as the online store, and stop them when the context ends."""
    with ExitStack() as stack:
        server = RedisServer(folder / "redis", "--appendonly", "no")
        server.start()
        stack.callback(server.stop)
        address = {REDIS: f"127.0.0.1:{server.port}", "SHADOWPRICE_FEATURE_READER": "packed"}
        stack.enter_context(environment(**{**address, **(settings or {})}))
        deployment = prepare(folder, accounts, context, rules)
        ledger = start_ledger(deployment, free_port())
        stack.callback(ledger.stop)
        ledger.wait_ready(60.0)
        started = time.perf_counter()
        grpc = free_port()
        with environment(SHADOWPRICE_GRPC_PORT=str(grpc)):
            predictor = start_predictor(deployment, free_port(), ledger.url)
        stack.callback(predictor.stop)
        predictor.wait_ready(120.0)
        seconds = time.perf_counter() - started
        http, trivial_grpc = free_port(), free_port()
        trivial = None
        if with_trivial:
            command = ["benchmarks.service.trivial", str(http), str(trivial_grpc)]
            log = deployment.logs_dir / "trivial.log"
            trivial = Service("trivial predictor", command, http, "/v2/health/ready", log)
            stack.callback(trivial.stop)
            trivial.wait_ready(120.0)
        console = None
        if with_console:
            console = start_console(deployment, free_port(), ledger.url)
            stack.callback(console.stop)
            console.wait_ready(60.0)
        yield Running(predictor, grpc, ledger, trivial, trivial_grpc, seconds, console)


def _tower(draw: Callable[..., NDArray[np.float32]]) -> ServedTower:
    names = ("x_basket", "c_channel=app", "c_channel=web")
    known = np.zeros(len(names), bool)
    scaling = Scaling(names, known, np.full(3, 0.5, np.float32), np.ones(3, np.float32), known)
    return ServedTower(
        context=scaling,
        partner=False,
        hidden_weight=draw(WIDTH, WIDTH + len(names)),
        hidden_bias=draw(WIDTH),
        out_weight=draw(WIDTH, WIDTH),
        out_bias=draw(WIDTH),
        default_own=draw(WIDTH),
    )


def cpu_seconds(service: Service) -> float:
    return processor_seconds(service.process.pid)


def load(service: Service, others: Mapping[str, Service] = MappingProxyType({}), **arguments: Any) -> dict[str, Any]:
    """Load a service by :func:`benchmarks.service.load.generate`.

    ``cpu_us``, and the name of each of ``others``, are processor microseconds per decision.
    """
    watched = {"cpu_us": service, **others}
    before = {name: cpu_seconds(each) for name, each in watched.items()}
    found = generate(**({"port": port_of(service)} | arguments))
    if found["refused"]:
        raise SystemExit(f"{service.name} refused {found['refused']} of {found['calls']} calls:\n{service.tail()}")
    decisions = found["calls"] * arguments["batch"]
    return found | {name: 1e6 * (cpu_seconds(each) - before[name]) / decisions for name, each in watched.items()}


def resident_mb(service: Service) -> float:
    pages = int(Path(f"/proc/{service.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def port_of(service: Service) -> int:
    return int(service.url.rsplit(":", 1)[1])
