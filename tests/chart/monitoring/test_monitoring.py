"""Rules fire when they should and stay silent when not, and ask for series that the services export."""

import copy
import json
import re
import subprocess
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard
from prometheus_client import CollectorRegistry
from rendering import CHART, ROOT, merged, render, values_of
from snippets import pages

from serving.ledger.api.headroom import HeadroomCollector
from serving.ledger.api.metrics import LedgerCollector
from serving.ledger.api.watch import WatchCollector
from serving.ledger.clock import wall
from serving.ledger.records import Storage
from serving.ledger.totals import LedgerTotals
from serving.predictor.metrics import PredictorMetrics
from serving.stream.sink import Sink
from serving.stream.stream import Stream
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.watch.finding import BY_LEVEL, BY_SIDE

PRODUCTION = merged(values_of(CHART / "ci" / "production-values.yaml"), "watch.enabled", True)
PRODUCTION["stream"] = {"enabled": True, "sink": {"url": "http://sink"}}
PRODUCTION["monitoring"]["selectors"] = {"namespace": None}
RULES = next(o for o in render(PRODUCTION) if o["kind"] == "PrometheusRule")
CAMPAIGN = "summer_2027"
ALERTS = {rule["alert"]: rule for group in RULES["spec"]["groups"] for rule in group["rules"] if "alert" in rule}
NAME = re.compile(r"\bshadowprice_[a-z0-9_]+|campaign:shadowprice_[a-z0-9_:]+")


@pytest.fixture(scope="module")
def promtool(tmp_path_factory: pytest.TempPathFactory, tool: Callable[[str], str]) -> tuple[str, Path]:
    """promtool and the rules in a file."""
    command = tool("promtool")
    path = tmp_path_factory.mktemp("rules") / "rules.yaml"
    path.write_text(yaml.safe_dump(RULES["spec"]))
    return command, path


def exported() -> set[str]:
    """Names of every series that the two services export."""
    now = datetime.now(UTC)
    campaign = Campaign(
        name="c",
        sides={"customer": Terms(levels=(10, 100))},
        budget=Budget(limit=100.0),
        starts_at=now,
        hours=1,
    )
    registry = CollectorRegistry()
    PredictorMetrics(campaign, registry)
    nothing = {"customer": 0}
    totals = LedgerTotals(
        decisions={}, authorized=nothing, outstanding=nothing, spent=nothing, responses=nothing, outcomes=nothing
    )
    storage = Storage(used_bytes=0, limit_bytes=0, decisions=0, outcomes=0)
    registry.register(HeadroomCollector("c", lambda: storage, {"store": Path()}))
    store = SimpleNamespace(totals=lambda: totals, usage=lambda _: {}, date=wall)
    registry.register(LedgerCollector(campaign, store, lambda: 0.0))
    registry.register(WatchCollector(campaign, Path("absent")))
    Stream(log=Path(), sink=Sink("http://sink"), cursor=Path(), campaign="c", batch=1, wait=bool, registry=registry)
    names = set()
    for family in registry.collect():
        names.add(family.name)
        names |= {sample.name for sample in family.samples}
    return names


def test_every_query_names_a_series_that_is_exported_or_recorded() -> None:
    recorded = {rule["record"] for group in RULES["spec"]["groups"] for rule in group["rules"] if "record" in rule}
    known = exported() | recorded
    queries = [rule["expr"] for group in RULES["spec"]["groups"] for rule in group["rules"]]
    for path in (CHART / "dashboards").glob("*.json"):
        board = json.loads(path.read_text())
        queries += [target["expr"] for panel in board["panels"] for target in panel["targets"]]
        queries += [entry["query"] for entry in board["templating"]["list"] if entry["type"] == "query"]
    asked = {name for query in queries for name in NAME.findall(query)}
    assert len(asked) > 12
    assert asked <= known


def test_every_series_that_a_page_names_is_exported_or_recorded() -> None:
    recorded = {rule["record"] for group in RULES["spec"]["groups"] for rule in group["rules"] if "record" in rule}
    marked = re.compile(r"`[^`\n]+`|^ {4}.*$", re.MULTILINE)
    named = {name for page in pages() for code in marked.findall(page.read_text()) for name in NAME.findall(code)}
    assert len(named) > 40
    assert named <= exported() | recorded


def board(release: str = "spring", **dashboards: Any) -> tuple[str, dict[str, Any]]:
    """File name and content of the dashboard of a release."""
    values = values_of(CHART / "ci" / "production-values.yaml")
    values["monitoring"] = {**values.get("monitoring", {}), "dashboards": dashboards}
    [found] = [each for each in render(values, release=release) if each["metadata"]["name"].endswith("-dashboards")]
    [(name, text)] = found["data"].items()
    return name, json.loads(text)


def test_dashboards_of_two_releases_do_not_replace_each_other() -> None:
    (one, first), (other, second) = board("spring"), board("summer")
    # Grafana's sidecar writes the files of all namespaces to one folder; the uid is that of release and namespace.
    assert one != other
    assert one == f"{first['uid']}-campaign.json"
    assert first["uid"] != second["uid"]
    assert len(first["uid"]) <= 40
    assert first["title"] != second["title"]
    assert "@" not in json.dumps(first)


def test_every_query_of_the_dashboard_serves_several_campaigns_at_once() -> None:
    _, found = board()
    queries = [target["expr"] for panel in found["panels"] for target in panel["targets"]]
    for query in [*queries, *(each["expr"] for each in found["annotations"]["list"])]:
        assert query.count("{") == query.count('campaign=~"$campaign"') > 0
        for aggregation in re.findall(r"\b(?:sum|max|avg|group|count)\b(.{14})", query):
            assert aggregation.startswith(" by (campaign"), query
    [campaign] = [each for each in found["templating"]["list"] if each["name"] == "campaign"]
    assert campaign["multi"]
    assert campaign["current"]["value"] == [CAMPAIGN]


def test_the_classes_of_grafana_read_the_whole_dashboard() -> None:
    """What their reading and writing drops or changes, Grafana would too."""
    _, found = board()
    read = json.loads(json.dumps(Dashboard.from_json(copy.deepcopy(found)), cls=JSONEncoder))

    def lost(before: Any, after: Any, path: str) -> list[str]:
        if isinstance(before, dict) and isinstance(after, dict):
            return [each for key in before for each in lost(before[key], after.get(key), f"{path}.{key}")]
        if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
            return [
                each for i, (x, y) in enumerate(zip(before, after, strict=True)) for each in lost(x, y, f"{path}[{i}]")
            ]
        return [] if before == after else [f"{path}: {before!r} → {after!r}"]

    # Texts and step of an annotation belong to the source of its data.
    of_source = re.compile(r"\.annotations\.list\[\d\]\.(step|titleFormat|textFormat):")
    assert [each for each in lost(found, read, "") if not of_source.match(each)] == []


def test_thresholds_units_and_links_of_the_dashboard_are_those_of_the_alerts() -> None:
    _, found = board(currency="JPY", minorUnits=1)
    panels = {panel["title"]: panel for panel in found["panels"]}
    red = {
        title: panel["fieldConfig"]["defaults"]["thresholds"]["steps"][1]["value"]
        for title, panel in panels.items()
        if "thresholds" in panel["fieldConfig"]["defaults"]
    }
    for title, alert in (
        ("Price age", "ShadowpricePriceStale"),
        ("Certificate of the active price", "ShadowpriceSolveNotCertified"),
        ("Decision time, 99th percentile by stage", "ShadowpriceDecisionsSlow"),
    ):
        assert red[title] == float(ALERTS[alert]["expr"].rpartition(" > ")[2])
        assert any(link["url"] == ALERTS[alert]["annotations"]["runbook_url"] for link in panels[title]["links"])
    assert panels["Spend"]["fieldConfig"]["defaults"]["unit"] == "currency:JPY"
    assert all(target["expr"].endswith("/ 1") for target in panels["Spend"]["targets"])
    assert all(panel["description"] for panel in found["panels"])


def test_every_alert_has_a_runbook() -> None:
    for name, rule in ALERTS.items():
        page = ROOT / "docs" / "how-to" / "runbooks" / f"{name}.md"
        assert rule["annotations"]["runbook_url"].endswith(f"/{page.name}")
        text = page.read_text()
        for part in ("## Meaning", "## Impact", "## Diagnosis", "## Mitigation"):
            assert part in text, f"{page.name} has no {part}"


def test_promtool_finds_the_rules_sound(promtool: tuple[str, Path]) -> None:
    command, path = promtool
    done = subprocess.run([command, "check", "rules", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def series(name: str, values: str, **labels: str) -> dict[str, str]:
    chosen = ",".join(f'{key}="{value}"' for key, value in {"campaign": CAMPAIGN, **labels}.items())
    return {"series": f"{name}{{{chosen}}}", "values": values}


HEALTHY = [
    series("shadowprice_price_age_seconds", "0+60x240"),
    series("shadowprice_overspend_minor_units", "0x240", budget="budget"),
    series("shadowprice_solve_gap_ratio", "1e-12x240"),
    series("shadowprice_pacing_error_ratio", "-0.02x240", budget="budget"),
    series("shadowprice_price_rejected_total", "0x240"),
    series("shadowprice_price_passed_over", "0x240", reason="unsound"),
    series("shadowprice_clock_skew_seconds", "-59x240"),
    series("shadowprice_degraded_total", "0x240", reason="stale_price"),
    series("shadowprice_spend_minor_units_total", "0+100x240", side="customer"),
    series("shadowprice_budget_minor_units", "100000x240", budget="budget"),
    series("shadowprice_decision_seconds_bucket", "0+100x240", stage="total", le="0.01"),
    series("shadowprice_decision_seconds_bucket", "0+100x240", stage="total", le="+Inf"),
    # Fills within four days, and is no more than half full.
    series("shadowprice_disk_free_bytes", "8e9-1e6x240", volume="store"),
    series("shadowprice_disk_size_bytes", "10e9x240", volume="store"),
    series("shadowprice_store_bytes", "7e8x240"),
    series("shadowprice_store_limit_bytes", "1e9x240"),
    *(series("shadowprice_watch_alarm", "0x240", side="customer", level="1", reason=check) for check in BY_LEVEL),
    *(series("shadowprice_watch_alarm", "0x240", side="customer", level="-1", reason=check) for check in BY_SIDE),
    series("shadowprice_watch_alarm", "0x240", side="all", level="-1", reason="sample_ratio"),
    series("shadowprice_watch_age_seconds", "3600+60x240"),
    series("shadowprice_stream_lag_seconds", "800x240"),
]
WATCH = {
    "ShadowpriceMiscalibrated": "calibration",
    "ShadowpriceLabelDrift": "label_drift",
    "ShadowpricePredictionsDrift": "stability",
    "ShadowpriceCurveShape": "curve_shape",
    "ShadowpriceFeatureDrift": "feature_drift",
    "ShadowpriceSampleRatio": "sample_ratio",
}

ILL: dict[str, list[dict[str, str]]] = {
    "ShadowpricePriceStale": [series("shadowprice_price_age_seconds", "7300+60x240")],
    "ShadowpriceOverspend": [series("shadowprice_overspend_minor_units", "1x240", budget="budget")],
    "ShadowpriceSolveNotCertified": [series("shadowprice_solve_gap_ratio", "1e-3x240")],
    "ShadowpricePacingOff": [series("shadowprice_pacing_error_ratio", "-0.2x240", budget="shops")],
    "ShadowpricePriceRejected": [series("shadowprice_price_rejected_total", "0x20 1x220")],
    "ShadowpriceDegraded": [series("shadowprice_degraded_total", "0+1x240", reason="stale_price")],
    "ShadowpriceDecisionsSlow": [
        series("shadowprice_decision_seconds_bucket", "0+1x240", stage="total", le="0.1"),
        series("shadowprice_decision_seconds_bucket", "0+100x240", stage="total", le="1.0"),
        series("shadowprice_decision_seconds_bucket", "0+100x240", stage="total", le="+Inf"),
    ],
    "ShadowpriceDiskFull": [
        series("shadowprice_disk_free_bytes", "4e9-1e6x240", volume="store"),
        series("shadowprice_disk_size_bytes", "10e9x240", volume="store"),
    ],
    "ShadowpriceStoreFull": [series("shadowprice_store_bytes", "9e8x240")],
    "ShadowpriceClockSkew": [series("shadowprice_clock_skew_seconds", "-61x240")],
    **{
        alert: [series("shadowprice_watch_alarm", "0x20 1x220", side="customer", level="1", reason=check)]
        for alert, check in WATCH.items()
    },
    "ShadowpriceWatchStale": [series("shadowprice_watch_age_seconds", "21600+60x240")],
    "ShadowpriceStreamLate": [series("shadowprice_stream_lag_seconds", "0x20 1000x220")],
    "ShadowpriceMetricsMissing": [],
}


def silent(alert: str) -> list[dict[str, str]]:
    """The healthy series, without those the alert's illness replaces."""
    replaced = {entry["series"].partition("{")[0] for entry in ILL[alert]}
    if alert == "ShadowpriceMetricsMissing":
        replaced = {"shadowprice_spend_minor_units_total"}
    return [entry for entry in HEALTHY if entry["series"].partition("{")[0] not in replaced]


def test_each_alert_fires_when_ill_and_is_silent_when_well(promtool: tuple[str, Path]) -> None:
    command, rules = promtool

    def asked(name: str, shown: list[dict[str, str]], alerts: Iterable[str]) -> dict[str, Any]:
        expected = [{"eval_time": "45m", "alertname": alert, "exp_alerts": []} for alert in alerts]
        return {"name": name, "interval": "1m", "input_series": shown, "alert_rule_test": expected}

    tests = {"rule_files": [str(rules)], "evaluation_interval": "1m"}
    well = run(command, rules.parent / "well.yaml", {**tests, "tests": [asked("well", HEALTHY, sorted(ALERTS))]})
    assert well.returncode == 0, well.stdout + well.stderr

    ill = [asked(alert, [*silent(alert), *ILL[alert]], [alert]) for alert in sorted(ALERTS)]
    done = run(command, rules.parent / "ill.yaml", {**tests, "tests": ill})
    # promtool says what fired where nothing was expected: of each alert, for the campaign.
    assert done.returncode != 0
    told = re.findall(r'alertname="(\w+)"[^}]*campaign="([^"]+)"', done.stdout + done.stderr)
    assert {alert for alert, campaign in told if campaign == CAMPAIGN} == set(ALERTS)


def test_a_predictor_that_started_on_a_damaged_price_raises_the_alert_too(promtool: tuple[str, Path]) -> None:
    """Its counter stood at 1 when it was first scraped, so it never increased."""
    command, rules = promtool
    started = [
        series("shadowprice_price_rejected_total", "1x240", reason="unsound"),
        series("shadowprice_price_passed_over", "1x100 0x140", reason="unsound"),
    ]
    asked = {"alertname": "ShadowpricePriceRejected"}
    labels = {"alertname": "ShadowpricePriceRejected", "campaign": CAMPAIGN, "severity": "warning"}
    expected = {"exp_labels": labels, "exp_annotations": ALERTS["ShadowpricePriceRejected"]["annotations"]}
    asks = [{**asked, "eval_time": "45m", "exp_alerts": [expected]}, {**asked, "eval_time": "180m", "exp_alerts": []}]
    tests = {
        "rule_files": [str(rules)],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": started, "alert_rule_test": asks}],
    }
    done = run(command, rules.parent / "started.yaml", tests)
    assert done.returncode == 0, done.stdout + done.stderr


def test_headroom_alerts_know_a_full_disk_from_a_slow_one_and_a_redis_without_a_limit(
    promtool: tuple[str, Path],
) -> None:
    command, rules = promtool
    size = series("shadowprice_disk_size_bytes", "10e9x240", volume="log")
    no_limit = [series("shadowprice_store_bytes", "9e8x240"), series("shadowprice_store_limit_bytes", "0x240")]
    cases = {
        # Full in 2.7 days, nearly full and not growing, full in seven days.
        "4e9-1e6x240": True,
        "9e8x240": True,
        "4e9-4e5x240": False,
    }
    for number, (free, fires) in enumerate(cases.items()):
        labels = {"alertname": "ShadowpriceDiskFull", "campaign": CAMPAIGN, "severity": "critical", "volume": "log"}
        expected = {"exp_labels": labels, "exp_annotations": ALERTS["ShadowpriceDiskFull"]["annotations"]}
        tests = {
            "rule_files": [str(rules)],
            "evaluation_interval": "1m",
            "tests": [
                {
                    "interval": "1m",
                    "input_series": [series("shadowprice_disk_free_bytes", free, volume="log"), size, *no_limit],
                    "alert_rule_test": [
                        {
                            "alertname": "ShadowpriceDiskFull",
                            "eval_time": "180m",
                            "exp_alerts": [expected] if fires else [],
                        },
                        {"alertname": "ShadowpriceStoreFull", "eval_time": "180m", "exp_alerts": []},
                    ],
                }
            ],
        }
        done = run(command, rules.parent / f"headroom-{number}.yaml", tests)
        assert done.returncode == 0, done.stdout + done.stderr


def run(command: str, path: Path, tests: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    path.write_text(yaml.safe_dump(tests))
    return subprocess.run([command, "test", "rules", str(path)], capture_output=True, text=True, check=False)
