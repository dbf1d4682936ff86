"""The chart's rules in a real Prometheus that scrapes the services' own metrics, and a price from what it says."""

import asyncio
import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import yaml
from prometheus_client import CollectorRegistry, start_http_server
from rendering import CHART, merged, render, values_of

from benchmarks.faults.redis_server import RedisServer
from serving.client.client import LedgerClient, Outcome
from serving.ledger.api.metrics import LedgerCollector
from serving.ledger.clock import wall
from serving.ledger.totals import LedgerTotals
from serving.local.launch import Service, free_port
from serving.predictor.ledger.client import Authorizer
from serving.predictor.ledger.columns import Proposals
from serving.predictor.metrics import PredictorMetrics
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.curves import Curves
from shadowprice.pacing.pacers import CampaignState, make_pacer
from shadowprice.pacing.prometheus import PrometheusSpend
from shadowprice.pacing.spend import MetricsSpend

CAMPAIGN = Campaign(
    name="summer_2027",
    sides={"customer": Terms(levels=(10, 100))},
    budget=Budget(limit=60_000),
    starts_at=datetime(2027, 6, 1, tzinfo=UTC),
    hours=10,
)
TOTALS = LedgerTotals(
    decisions={("customer", 0, "optimal"): 300, ("customer", 1, "tie"): 100, ("customer", 1, "budget_exhausted"): 1},
    authorized={"customer": 13_000},
    outstanding={"customer": 2_000},
    spent={"customer": 9_000},
    responses={"customer": 120.0},
    outcomes={"customer": 380},
)


def rules(folder: Path, selectors: dict[str, Any] = {"namespace": None}) -> Path:  # noqa: B006
    """The rules of the chart, evaluated every second instead of every half minute."""
    values = merged(values_of(CHART / "ci" / "production-values.yaml"), "monitoring.selectors", selectors)
    spec = next(o for o in render(values) if o["kind"] == "PrometheusRule")
    for group in spec["spec"]["groups"]:
        group["interval"] = "1s"
    path = folder / "rules.yaml"
    path.write_text(yaml.safe_dump(spec["spec"]))
    return path


def queries() -> list[tuple[str, str]]:
    """Panel and query of each target of the chart's dashboard, as Grafana sends them."""
    values = merged(values_of(CHART / "ci" / "production-values.yaml"), "monitoring.selectors", {"namespace": None})
    objects = render(values)
    [boards] = [each["data"] for each in objects if each["metadata"]["name"].endswith("-dashboards")]
    found = []
    for text in boards.values():
        board = json.loads(text)
        annotations = [("annotation", each["expr"]) for each in board["annotations"]["list"]]
        panels = [(panel["title"], target["expr"]) for panel in board["panels"] for target in panel["targets"]]
        found += [*panels, *annotations]
    given = {"$campaign": CAMPAIGN.name, "$__rate_interval": "5s", "$__interval": "5s"}
    for name, text in given.items():
        found = [(panel, query.replace(name, text)) for panel, query in found]
    return found


def ask(url: str, path: str) -> Any:
    with urllib.request.urlopen(f"{url}{path}", timeout=5) as answer:
        return json.loads(answer.read())["data"]


def value(url: str, query: str) -> float | None:
    found = ask(url, f"/api/v1/query?{urllib.parse.urlencode({'query': query})}")["result"]
    return float(found[0]["value"][1]) if found else None


def firing(url: str) -> set[str]:
    return {
        alert["labels"]["alertname"] for alert in ask(url, "/api/v1/alerts")["alerts"] if alert["state"] == "firing"
    }


def test_recorded_totals_alerts_and_the_next_price_come_from_what_the_services_export(
    tmp_path: Path, run_prometheus: Callable[..., AbstractContextManager[Any]], eventually: Callable[..., None]
) -> None:
    books = [TOTALS]
    registry = CollectorRegistry()
    predictor = PredictorMetrics(CAMPAIGN, registry)
    store = SimpleNamespace(totals=lambda: books[0], usage=lambda _: {}, date=wall)
    registry.register(LedgerCollector(CAMPAIGN, store, lambda: 0.0))
    curves = Curves(np.array([10, 100]), np.linspace([0.1, 0.3], [0.4, 0.9], 50).T)
    with predictor.stage("total"):
        predictor.degraded("features", 1)
    predictor.features_used("customer", 1, 30.0)
    predictor.price_rejected("model")

    def solved(url: str, newest: Any = None) -> Any:
        spend = PrometheusSpend(url).read(CAMPAIGN.name)
        return make_pacer("hourly").price(
            CampaignState(
                campaign=CAMPAIGN,
                at=4.0,
                slot_and_step=(4, 0),
                spend=spend,
                remaining={"customer": np.full(6, 100.0)},
                curves=lambda: {"customer": curves},
                newest=newest,
                version=1,
                model_version="m",
                now=spend.observed_at,
            )
        )

    with run_prometheus(tmp_path, rules(tmp_path)) as server:
        exporter, thread = start_http_server(server.target, addr="127.0.0.1", registry=registry)
        try:
            eventually(lambda: value(server.url, "campaign:shadowprice_spend_minor_units:total") == 9_000)
            eventually(lambda: value(server.url, "campaign:shadowprice_budget_used:ratio") == 9_000 / 60_000)
            eventually(lambda: value(server.url, "campaign:shadowprice_outstanding_minor_units:total") == 2_000)
            assert firing(server.url) == set()

            found = solved(server.url)
            record = found.record
            assert (record.spent, record.requests) == (9_000, 401)
            assert record.plan[0] == 9_000 + 2_000
            # The price is in force: what its solve took, and how far the spend was off, are exported with it.
            predictor.active_price(replace(record, pacing_error=-0.25, seconds=0.125).sealed())
            eventually(lambda: value(server.url, "campaign:shadowprice_pacing_error:ratio") == 0.25)
            assert value(server.url, "shadowprice_solve_seconds") == 0.125
            assert value(server.url, "shadowprice_pacing_error_ratio") == -0.25

            # A new model is marked for an interval; then every query gives rows, also without the recorded series.
            (solves, models) = [query for panel, query in queries() if panel == "annotation"]
            eventually(lambda: value(server.url, models) == 1)
            for panel, query in queries():
                assert "campaign:" not in query, panel
                if panel != "annotation":
                    eventually(lambda query=query: value(server.url, query) is not None)
            assert value(server.url, solves.partition(" > ")[0]) is not None
            eventually(lambda: value(server.url, models) is None)

            books[0] = replace(TOTALS, refunded={"customer": 1_500})
            eventually(lambda: value(server.url, "campaign:shadowprice_spend_minor_units:total") == 7_500)
            eventually(lambda: value(server.url, "campaign:shadowprice_budget_used:ratio") == 7_500 / 60_000)
            assert PrometheusSpend(server.url).read(CAMPAIGN.name).spent == 7_500

            books[0] = replace(TOTALS, spent={"customer": 60_001}, outstanding={"customer": 0})
            eventually(lambda: "ShadowpriceOverspend" in firing(server.url))
            books[0] = TOTALS
            eventually(lambda: "ShadowpriceOverspend" not in firing(server.url))
            waiting = {
                alert["labels"]["alertname"]: alert["state"] for alert in ask(server.url, "/api/v1/alerts")["alerts"]
            }
            # A pacing error must last before it is an alarm; the price itself is from 2027 and not old.
            assert waiting.get("ShadowpricePacingOff") == "pending"
        finally:
            exporter.shutdown()
            exporter.server_close()
            thread.join()
        eventually(lambda: value(server.url, "absent(shadowprice_spend_minor_units_total)") == 1)


def test_two_ledgers_on_one_redis_count_once(
    tmp_path: Path,
    run_prometheus: Callable[..., AbstractContextManager[Any]],
    eventually: Callable[..., None],
    tool: Callable[[str], str],
) -> None:
    """Both export the campaign's books; what is recorded from them, and the spend that is priced, are those once."""
    tool("redis-server")
    levels, asked = CAMPAIGN.sides["customer"].levels, 6
    (tmp_path / "campaign.json").write_text(json.dumps(CAMPAIGN.to_dict()))
    with ExitStack() as running:
        redis = RedisServer(tmp_path / "redis")
        redis.start()
        running.callback(redis.stop)
        ledgers = []
        for number in range(2):
            port = free_port()
            command = ["serving.ledger", "--campaign-file", str(tmp_path / "campaign.json"), "--port", str(port)]
            ledger = Service("ledger", [*command, "--redis", redis.url], port, "/readyz", tmp_path / f"{number}.log")
            running.callback(ledger.stop)
            ledgers.append(ledger)
        for ledger in ledgers:
            ledger.wait_ready(120.0)
        for number, ledger in enumerate(ledgers):
            names = [f"r-{number}-{serial}" for serial in range(asked)]
            proposals = Proposals(
                request_id=names,
                account_id=["a"] * asked,
                side=["customer"] * asked,
                level=[1] * asked,
                incentive=[levels[1]] * asked,
                response=[0.5] * asked,
                expected_cost=[50.0] * asked,
                propensity=[1.0] * asked,
                reason=["optimal"] * asked,
                response_unpaid=[0.1] * asked,
                propensities=[[0.0, 1.0]] * asked,
                features_at=[None] * asked,
            )
            with asyncio.Runner() as runner, closing(Authorizer(ledger.url, CAMPAIGN.name)) as authorizer:
                for _ in range(2):  # the second time as repeats
                    runner.run(authorizer.authorize(proposals, model_version="m", price_version=1))
            with LedgerClient(ledger.url) as client:
                now = datetime.now(UTC)
                taken = [Outcome(request_id=name, cost=levels[1], observed_at=now, redeemed=True) for name in names[:2]]
                client.settle(taken, "test")
        ports = [int(ledger.url.rsplit(":", 1)[1]) for ledger in ledgers]
        server = running.enter_context(run_prometheus(tmp_path, rules(tmp_path), ports))
        spent, promised = 4 * levels[1], 8 * levels[1]
        eventually(lambda: value(server.url, "sum(shadowprice_spend_minor_units_total)") == 2 * spent)
        eventually(lambda: value(server.url, "campaign:shadowprice_spend_minor_units:total") == spent)
        eventually(lambda: value(server.url, "campaign:shadowprice_outstanding_minor_units:total") == promised)
        eventually(lambda: value(server.url, "campaign:shadowprice_budget_used:ratio") == spent / 60_000)
        seen = PrometheusSpend(server.url).read(CAMPAIGN.name)
        pages = MetricsSpend([f"{ledger.url}/metrics" for ledger in ledgers]).read(CAMPAIGN.name)
        for found in (seen, pages):
            assert (found.spent, found.requests["customer"]) == (spent, 2 * asked)
            assert (found.responses["customer"], found.outstanding["customer"]) == (4.0, promised)


def test_rates_of_two_ledgers_that_share_their_books_are_not_added(tmp_path: Path, tool: Callable[[str], str]) -> None:
    """The same counter from two instances rises by one a second: that is the rate, with each one's own repeats."""
    promtool, path = tool("promtool"), rules(tmp_path)
    name = "shadowprice_decisions_total"
    labels = f'campaign="{CAMPAIGN.name}",side="customer",level="1"'
    shown = [
        {"series": f'{name}{{{labels},reason="{reason}",instance="{instance}"}}', "values": values}
        for instance in ("a", "b")
        for reason, values in (("optimal", "0+60x60"), ("tie", "0+30x60"), ("repeat", "0+6x60"))
    ]
    record = "campaign:shadowprice_decisions:rate5m"
    wanted = {"labels": f'{record}{{campaign="{CAMPAIGN.name}"}}', "value": 1.0 + 0.5 + 2 * 0.1}
    tests = {
        "rule_files": [str(path)],
        "tests": [
            {
                "interval": "1m",
                "input_series": shown,
                "promql_expr_test": [{"expr": record, "eval_time": "30m", "exp_samples": [wanted]}],
            }
        ],
    }
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests))
    command = [promtool, "test", "rules", str(tmp_path / "tests.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
