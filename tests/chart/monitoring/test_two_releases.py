"""Two releases with a campaign of one name on one Prometheus: neither steers, alarms or draws the other."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server
from rendering import CHART, merged, pods, render, values_of

from serving.resolve import ResolveSettings
from shadowprice.errors import InvalidInput, Unavailable
from shadowprice.pacing.prometheus import PrometheusSpend

PRODUCTION = values_of(CHART / "ci" / "production-values.yaml")
CAMPAIGN = "summer_2027"


def exporter(spent: int, over: int) -> CollectorRegistry:
    """Metrics of a release's ledger that has spent so much, and so much beyond its budget."""
    registry = CollectorRegistry()
    for kind, name, value in (
        (Counter, "spend_minor_units", spent),
        (Counter, "redemptions", 1),
        (Gauge, "outstanding_minor_units", 0),
        (Gauge, "budget_minor_units", 10_000),
        (Gauge, "overspend_minor_units", over),
    ):
        labels = ("campaign", "side") if kind is Counter or name.startswith("out") else ("campaign",)
        family = kind(f"shadowprice_{name}", "-", labels, registry=registry)
        of = family.labels(*(CAMPAIGN, "customer")[: len(labels)])
        of.inc(value) if kind is Counter else of.set(value)
    decisions = Counter("shadowprice_decisions", "-", ["campaign", "side", "level", "reason"], registry=registry)
    decisions.labels(CAMPAIGN, "customer", "1", "optimal").inc(2)
    return registry


def rules(values: dict[str, Any], namespace: str) -> list[dict[str, Any]]:
    """Groups of rules of a release in a namespace, evaluated every second."""
    [found] = [entry["spec"]["groups"] for entry in render(values) if entry["kind"] == "PrometheusRule"]
    text = yaml.safe_dump(found).replace('namespace="growth"', f'namespace="{namespace}"')
    groups = yaml.safe_load(text.replace("namespace: growth", f"namespace: {namespace}"))
    return [{**group, "name": f"{namespace}-{group['name']}", "interval": "1s"} for group in groups]


def test_staging_and_production_are_recorded_alerted_and_priced_apart(
    tmp_path: Path,
    run_prometheus: Callable[..., AbstractContextManager[Any]],
    eventually: Callable[..., None],
    free_port: Callable[[], int],
) -> None:
    ports = {"growth": free_port(), "staging": free_port()}
    spent = {"growth": 4_000, "staging": 11_000}
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [each for space in ports for each in rules(PRODUCTION, space)]}))

    def ask(url: str, query: str) -> dict[str, float]:
        return {
            each["metric"].get("namespace", ""): float(each["value"][1]) for each in PrometheusSpend(url)._query(query)
        }

    with ExitStack() as running:
        for space, port in ports.items():
            server, thread = start_http_server(
                port, addr="127.0.0.1", registry=exporter(spent[space], max(spent[space] - 10_000, 0))
            )
            running.callback(thread.join)
            running.callback(server.server_close)
            running.callback(server.shutdown)
        labels = {port: {"namespace": space} for space, port in ports.items()}
        url = running.enter_context(run_prometheus(tmp_path, path, [*ports.values()], labels)).url
        eventually(lambda: ask(url, "campaign:shadowprice_spend_minor_units:total") == spent)
        eventually(lambda: ask(url, "campaign:shadowprice_budget_used:ratio") == {"growth": 0.4, "staging": 1.1})
        eventually(lambda: ask(url, 'ALERTS{alertname="ShadowpriceOverspend",alertstate="firing"}') == {"staging": 1})
        for space in ports:
            report = PrometheusSpend(url, f"namespace={space}").read(CAMPAIGN)
            assert (report.spent, report.requests["customer"]) == (spent[space], 2)
        # Without labels a price would be solved from the larger of the two.
        with pytest.raises(Unavailable, match=r"several releases \(growth/\?, staging/\?\); choose one by"):
            PrometheusSpend(url).read(CAMPAIGN)
        with pytest.raises(Unavailable, match="no fresh series"):
            PrometheusSpend(url, "namespace=growth,release=other").read(CAMPAIGN)
    with pytest.raises(InvalidInput, match="prometheus_labels"):
        PrometheusSpend(url, "namespace").read(CAMPAIGN)


@pytest.mark.parametrize(
    ("selectors", "expected"),
    [
        ({}, {"namespace": "growth"}),
        ({"namespace": "other", "release": "a"}, {"namespace": "other", "release": "a"}),
        ({"namespace": None}, {}),
    ],
)
def test_rules_dashboard_and_resolve_choose_the_same_series(
    selectors: dict[str, Any], expected: dict[str, str]
) -> None:
    objects = render(merged(PRODUCTION, "monitoring.selectors", selectors))
    matchers = "".join(f',{name}="{value}"' for name, value in expected.items())
    [groups] = [entry["spec"]["groups"] for entry in objects if entry["kind"] == "PrometheusRule"]
    for rule in (rule for group in groups for rule in group["rules"]):
        assert rule["expr"].count("{") == rule["expr"].count(f'{{campaign="{CAMPAIGN}"{matchers}') > 0, rule
        assert rule.get("labels", {}).items() >= expected.items()
    [boards] = [entry["data"] for entry in objects if entry["metadata"]["name"].endswith("-dashboards")]
    for panel in (panel for text in boards.values() for panel in json.loads(text)["panels"]):
        for target in panel["targets"]:
            assert target["expr"].count("{") == target["expr"].count(f'campaign=~"$campaign"{matchers}') > 0
    for job in (entry for entry in objects if entry["kind"] == "CronJob"):
        [container] = pods(job)[0]["spec"]["containers"]
        given = {each["name"]: each.get("value", "") for each in container["env"]}
        labels = ResolveSettings.parse([], given).prometheus_labels
        assert labels == ",".join(f"{name}={value}" for name, value in expected.items())
    [monitor] = [entry["spec"] for entry in objects if entry["kind"] == "PodMonitor"]
    assert monitor["podTargetLabels"] == ["app.kubernetes.io/instance"]


def test_the_resolve_shows_prometheus_a_token_and_believes_its_authority() -> None:
    given = {"existingSecret": "monitoring", "tokenKey": "bearer", "caKey": "authority"}
    values = merged(PRODUCTION, "resolve.prometheus", given)
    jobs = [entry for entry in render(values) if entry["kind"] == "CronJob"]
    for spec in (pod["spec"] for job in jobs for pod in pods(job)):
        [container] = spec["containers"]
        settings = ResolveSettings.parse([], {e["name"]: e.get("value", "") for e in container["env"]})
        [volume] = [each["secret"] for each in spec["volumes"] if each["name"] == "prometheus"]
        [mount] = [each for each in container["volumeMounts"] if each["name"] == "prometheus"]
        keys = {f"{mount['mountPath']}/{item['path']}": item["key"] for item in volume["items"]}
        assert (volume["secretName"], volume["defaultMode"], mount["readOnly"]) == ("monitoring", 0o440, True)
        assert keys == {settings.prometheus_token_file: "bearer", settings.prometheus_ca_file: "authority"}
