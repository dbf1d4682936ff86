"""Uses what a recipe of CONTRIBUTING.md added: ``recipes_used.py NAME FOLDER [REDIS]``, run on a copy of the code.

Imports stand in the functions, since each recipe changes other modules.
"""

import asyncio
import json
import re
import sqlite3
import sys
from contextlib import closing
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from socket import gethostname
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

TESTS = Path(__file__).parents[1]
TINY = {"customers": 250, "merchants": 80, "both": 10, "trials": 3}


def helpers(name: str) -> Any:
    """Module of a file of the tests."""
    spec = spec_from_file_location(name.replace("/", "_"), TESTS / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def model(folder: Path) -> None:
    from benchmarks.world.training_set import training_set
    from shadowprice.errors import InvalidInput
    from shadowprice.learning.bundle import EMBEDDINGS
    from shadowprice.learning.fit import fit_bundle
    from shadowprice.learning.recipes import Training
    from shadowprice.responses.training import TrainingConfig

    dataset, data = training_set("world", 0, **TINY)
    tables = dataset.tables
    joined = data.inputs.joined.copy()
    assert sorted(joined["account_id"]) == sorted(set(tables.account["account_id"]))
    assert joined["joined_at"].iloc[0] == tables.account["snapshot_ts"].min().timestamp()
    later = data.serving["customer"]["account_id"].astype(str).iloc[::3]
    joined.loc[joined["account_id"].isin(later), "joined_at"] += 86400
    replace(data, inputs=replace(data.inputs, joined=joined)).save(folder / "training")
    how, config = Training("newcomer", calibration="none"), TrainingConfig(epochs=1)
    fit_bundle(folder / "training", folder / "model", how, config, workers=0)
    stored = pd.read_parquet(folder / "model" / EMBEDDINGS)
    stored = stored[stored["side"] == "customer"]
    levels = len(data.levels["customer"])
    rows = data.rows["customer"]
    rows = rows[rows["split"] == "train"].assign(late=rows["account_id"].astype(str).isin(later))
    mean = rows.groupby(["late", "level"])["response"].mean().unstack().reindex(columns=range(levels)).fillna(0)
    late = stored["account_id"].isin(later)
    assert 0 < late.sum() < late.size
    assert not np.allclose(mean.loc[False], mean.loc[True])
    for group in (False, True):
        curves = np.stack(stored.loc[late == group, "embedding"].to_numpy())[:, :levels]
        np.testing.assert_allclose(curves, np.tile(mean.loc[group], (len(curves), 1)), atol=1e-6)
    replace(data, inputs=replace(data.inputs, joined=None)).save(folder / "without")
    with pytest.raises(InvalidInput, match="joined: is missing: model 'newcomer' reads it"):
        fit_bundle(folder / "without", folder / "other", how, config, workers=0)


def layer(folder: Path) -> None:
    from benchmarks.world.training_set import training_set
    from shadowprice.learning.bundle import EMBEDDINGS
    from shadowprice.learning.fit import fit_bundle
    from shadowprice.learning.recipes import Training
    from shadowprice.responses.layers.heads import load_heads
    from shadowprice.responses.training import TrainingConfig

    training_set("world", 0, **TINY)[1].save(folder / "training")
    how = Training("joint_shared_slope", calibration="none")
    fit_bundle(folder / "training", folder / "model", how, TrainingConfig(epochs=2), workers=0)
    heads = load_heads(folder / "model")
    assert {side: head.kind for side, head in heads.items()} == {"customer": "logit", "merchant": "linear"}
    stored = pd.read_parquet(folder / "model" / EMBEDDINGS)
    embedding = np.stack(stored.loc[stored["side"] == "customer", "embedding"].to_numpy())
    response = heads["customer"].response(embedding).astype(np.float64)
    logit = np.log(response / (1 - response))
    steps = np.diff(logit, axis=0) / np.diff(heads["customer"].levels)[:, None]
    assert steps.min() > 0
    np.testing.assert_allclose(steps, steps[0, 0], rtol=1e-3)
    assert logit[0].std() > 1e-4


def pacer(_: Path) -> None:
    from shadowprice.pacing.pacers import make_pacer
    from shadowprice.pacing.replay.compare import run_pacer

    setting = helpers("pacing/conftest").make_setting(requests=600)
    own, hourly = (run_pacer(setting, make_pacer(name)).prices for name in ("every_other_hour", "hourly"))
    assert [round(at) for at, _ in own] == list(range(0, 24, 2))
    assert [round(at) for at, _ in hourly] == list(range(24))
    assert own[0][1].record.prices == hourly[0][1].record.prices
    assert own[1][1].record.prices != own[0][1].record.prices


def decide(store: Any, campaign: Any, message: dict[str, Any], at: datetime) -> Any:
    """Authorize a message as the ledger's endpoint does, and return its answer."""
    import orjson
    from pydantic import TypeAdapter

    from serving.ledger.api import answers, authorize, messages
    from serving.ledger.clock import microseconds
    from serving.predictor.ledger.client import Authorization
    from serving.predictor.ledger.columns import Authorized

    body = orjson.dumps({"campaign": campaign.name, "model_version": "m", "price_version": 1} | message)
    batch = messages.parse(TypeAdapter(messages.Authorizations), body)
    calls = authorize.calls(batch, authorize.entries(campaign, batch, at))
    found = store.authorize(calls, authorize.ceiling(campaign, True, at), microseconds(at)).result(20)
    told = answers.content(*answers.recorded_rows(batch, found), found)
    columns = {name: list(values) for name, values in told["decisions"].items()}
    return Authorization(Authorized(**columns), told["known"], told["errors"])


def proposal(campaign: Any, request_id: str, account_id: str, side: str, level: int) -> dict[str, Any]:
    """Message with one decision."""
    costs = campaign.terms(side).unit_costs
    values = {"request_id": request_id, "account_id": account_id, "side": side, "level": level}
    values |= {"incentive": costs[level], "response": 0.5, "expected_cost": 0.0, "propensity": 1.0}
    values |= {"reason": "optimal", "response_unpaid": 0.5, "features_at": None}
    values["propensities"] = [float(each == level) for each in range(len(costs))]
    return {"items": {name: [value] for name, value in values.items()}}


def before(folder: Path, url: str) -> None:
    """A ledger of today's code with one decision, in both stores."""
    from serving.ledger.opening import open_store

    campaign = helpers("serving/conftest").make_campaign()
    for place in ("", url):
        store = open_store(campaign, folder / "ledger.db", place)
        decide(store, campaign, proposal(campaign, "old", "c1", "customer", 1), datetime.now(UTC))
        store.close()


def field(folder: Path, url: str) -> None:
    import pyarrow.parquet as pq
    from local_ledger import Fixed, NoLedger, TableReader
    from prometheus_client import CollectorRegistry

    from serving.ledger.log import LogWriter
    from serving.ledger.opening import open_store
    from serving.predictor.active import Active, ServedModel
    from serving.predictor.features import Features
    from serving.predictor.metrics import PredictorMetrics
    from serving.predictor.predictor import Predictor
    from serving.protocol import Requests

    kit = helpers("serving/conftest")
    campaign, heads = kit.make_campaign(), kit.make_heads()
    features = Features(TableReader(kit.make_embeddings()), {side: heads[side].default_embedding for side in heads})
    source = Fixed(Active(kit.make_price(), ServedModel("m", heads, features)))

    def answer(ledger: Any, **options: Any) -> Any:
        metrics = PredictorMetrics(campaign, CollectorRegistry())
        predictor = Predictor(campaign=campaign, source=source, ledger=ledger, metrics=metrics, window=False, **options)
        return asyncio.run(predictor.answer(Requests(["new"], ["c2"], ["customer"])))

    for place in ("", url):
        store = open_store(campaign, folder / "ledger.db", place)

        class Ledger:
            told: Any = None

            async def authorize(self, proposals: Any, known: Any, *, sizes: Any, store: Any = store, **_: Any) -> Any:
                parts = {"items": {k: v for k, v in asdict(proposals).items() if v is not None}, "sizes": list(sizes)}
                self.told = decide(store, campaign, parts, datetime.now(UTC))
                return self.told

        ledger = Ledger()
        recorded = answer(ledger)
        assert not recorded.degraded
        assert ledger.told.decisions.host == [gethostname()]
        decide(store, campaign, proposal(campaign, "without", "c3", "customer", 1), datetime.now(UTC))
        hosts = {"old": "", "new": gethostname(), "without": ""}
        assert {name: each.host for name, each in store.find(list(hosts)).items()} == hosts
        assert [each.host for each in store.decisions_after(0, 9)] == list(hosts.values())
        if not place:
            LogWriter(store, folder / "log").write()
        store.close()
    (segment,) = (folder / "log").glob("decisions-*.parquet")
    assert pq.read_table(segment).column("host").to_pylist() == ["", gethostname(), ""]
    open_store(campaign, folder / "new.db").close()
    shapes = []
    for name in ("ledger.db", "new.db"):
        with closing(sqlite3.connect(folder / name)) as database:
            shapes.append(database.execute("PRAGMA table_info(decision)").fetchall())
            assert database.execute("SELECT value FROM about WHERE key = 'schema'").fetchall() == [("13",)]
    assert shapes[0] == shapes[1]
    assert shapes[0][-1][1] == "host"
    for name, told in (("new", gethostname()), ("old", "not recorded")):
        assert f"Decided by {told} " in page(campaign, folder, name)
    # Without the ledger, where it may be missing, the proposal stands.
    alone = answer(NoLedger(), authorization_required=False)
    assert alone.degraded
    assert alone.level.tolist() == recorded.level.tolist()


def page(campaign: Any, folder: Path, request_id: str) -> str:
    """Text of the console's page about a request."""
    from serving.console.app import Console
    from shadowprice.pacing.price_store import PriceStore

    totals = SimpleNamespace(totals=lambda: None)
    console = Console(campaign, totals, PriceStore(folder / "prices"), log=folder / "log")
    console._state = lambda: SimpleNamespace(now=datetime.now(UTC))
    asked = SimpleNamespace(
        path_params={"name": campaign.name},
        query_params={"request_id": request_id},
        scope={"caller": SimpleNamespace(name="ann")},
        cookies={},
    )
    shown = console.answer(console.requests, asked)
    assert shown.status_code == 200, shown.body
    return " ".join(re.sub(r"<[^>]+>", " ", shown.body.decode()).split())


def limit(folder: Path, url: str) -> None:
    from serving.ledger.opening import open_store
    from shadowprice.campaign import Campaign
    from shadowprice.errors import InvalidInput
    from shadowprice.limits import Asked, Cap, Limits

    quota = {"name": "coupons", "count": 2, "period": "day", "side": "customer"}
    limits = Limits.from_dict({"quotas": [quota]})
    assert limits.to_dict()["quotas"] == [quota]
    for wrong, told in (
        (quota | {"count": -1}, "limits.quotas.count: must be a whole number of incentives from 0"),
        (quota | {"amount": 3}, "limits.quotas: has no field 'amount'"),
        ({"name": "coupons"}, "limits.quotas: lacks a field"),
    ):
        with pytest.raises(InvalidInput, match=told):
            Limits.from_dict({"quotas": [wrong]})
    with pytest.raises(InvalidInput, match="names of budgets and caps must differ"):
        replace(limits, caps=(Cap(name="coupons", per="account", count=1),))
    day = datetime(2024, 5, 1, 12, tzinfo=UTC)
    assert limits.sums(Asked("a", "customer", "", "unassigned"), day) == ("coupons|2024-05-01|",)
    assert limits.sums(Asked("a", "merchant", "", "unassigned"), day) == ()
    campaign = replace(helpers("serving/conftest").make_campaign(), name="quotas", limits=limits)
    assert Campaign.from_dict(json.loads(json.dumps(campaign.to_dict()))) == campaign
    with pytest.raises(InvalidInput, match=r"limits\.side: must be one of"):
        replace(campaign, limits=Limits.from_dict({"quotas": [quota | {"side": "courier"}]}))
    assert campaign.priced == ("budget",)
    assert not campaign.coverage().budgets
    for place in ("", url):
        store = open_store(campaign, folder / "quotas.db", place)

        def given(name: str, side: str = "customer", at: datetime = day, store: Any = store) -> tuple[int, str, str]:
            told = decide(store, campaign, proposal(campaign, name, name, side, 1), at).decisions
            return told.level[0], told.reason[0], told.limited_by[0]

        assert given("first") == given("second") == (1, "optimal", "")
        assert given("third") == (0, "budget_exhausted", "coupons")
        assert given("merchant", "merchant") == (1, "optimal", "")
        assert given("tomorrow", at=day + timedelta(days=1)) == (1, "optimal", "")
        store.close()


if __name__ == "__main__":
    import shadowprice

    name, folder, *more = sys.argv[1:]
    globals()[name](Path(folder), *more)
    print(f"{name} works in {Path(shadowprice.__file__).parents[1]}")
