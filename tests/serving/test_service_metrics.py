"""What both services export, against the page that names it and what is in force."""

from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from serving.client.client import DecisionClient
from serving.protocol import RECORDED_REASONS

CONTRACT = (
    *("decisions_total", "decision_seconds", "authorized_minor_units_total", "spend_minor_units_total"),
    *("redemptions_total", "budget_minor_units", "price", "price_age_seconds", "solve_gap_ratio"),
    *("solve_violation_ratio", "solve_seconds", "pacing_error_ratio", "feature_age_seconds", "cold_start_total"),
    "overspend_minor_units",
)
"""Names that dashboards and alerts of others rely on, after the prefix."""


def documented_metrics():
    """(name, type, labels, service) as the page on metrics has them."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "metrics.md").read_text()
    for section in page.split("\n## ")[1:]:
        service = section.partition("\n")[0].lower()
        for line in section.splitlines():
            if line.startswith("| `shadowprice_"):
                name, kind, labels = (cell.strip() for cell in line.strip("|").split("|")[:3])
                yield name.strip("`"), kind, frozenset({"campaign", *filter(None, labels.split(", "))}), service


def exported_metrics(url, service):
    """The same of a scrape."""
    for family in text_string_to_metric_families(httpx.get(f"{url}/metrics").text):
        if not family.name.startswith("shadowprice_"):
            continue
        name = family.name + ("_total" if family.type == "counter" else "")
        kept = [sample for sample in family.samples if not sample.name.endswith("_created")]
        for labels in {frozenset(sample.labels) - {"le"} for sample in kept}:
            yield name, family.type, labels, service


def test_the_services_export_what_the_page_on_metrics_has_and_nothing_else(world):
    with DecisionClient(world.predictor.url, "spring") as client:
        client.decide(["exported-1", "exported-2"], ["c1", "m1"], ["customer", "merchant"])
    # tests/serving/stream compares those of the stream.
    documented = {metric for metric in documented_metrics() if metric[-1] != "stream"}
    assert {name for name, *_ in documented} >= {f"shadowprice_{name}" for name in CONTRACT}
    found = {
        *exported_metrics(world.predictor.url, "predictor"),
        *exported_metrics(world.ledger.url, "ledger"),
    }
    assert found == documented


def test_labels_of_metrics_are_bounded_and_values_active_ones(world, samples):
    pages = {**samples(world.predictor.url), **samples(world.ledger.url)}
    ours = {key: value for key, value in pages.items() if key[0].startswith("shadowprice_")}
    labels = {label for _, pairs in ours for label, _ in pairs}
    assert labels <= {"campaign", "side", "level", "reason", "stage", "budget", "arm", "volume", "le", "model_version"}
    # Of the models that were active only the present one is shown.
    models = [dict(pairs)["model_version"] for name, pairs in ours if name == "shadowprice_model_info"]
    assert models == [world.price.model_version]
    assert all(dict(pairs)["campaign"] == "spring" for _, pairs in ours)
    decisions = {
        (dict(pairs)["side"], dict(pairs)["level"], dict(pairs)["reason"])
        for name, pairs in ours
        if name == "shadowprice_decisions_total"
    }
    assert len(decisions) == (5 + 4) * len([*RECORDED_REASONS, "repeat"])
    stages = {dict(pairs).get("stage") for name, pairs in ours if name == "shadowprice_decision_seconds_count"}
    assert stages == {"decode", "features", "curve", "decide", "authorize", "encode", "total"}
    assert ours["shadowprice_overspend_minor_units", (("budget", "budget"), ("campaign", "spring"))] == 0
    assert ours["shadowprice_price", (("budget", "budget"), ("campaign", "spring"))] == world.price.prices["budget"]
    for name, value in (
        ("solve_gap_ratio", world.price.gap),
        ("solve_violation_ratio", world.price.violation),
        ("solve_seconds", world.price.seconds),
        ("spend_ratio", world.price.spend_ratio),
    ):
        assert ours[f"shadowprice_{name}", (("campaign", "spring"),)] == value, name
    errors = {"budget": world.price.pacing_error, "customers": 0.0, "apps": 0.0} | dict(world.price.pacing_errors)
    for budget, error in errors.items():
        labels = (("budget", budget), ("campaign", "spring"))
        assert ours["shadowprice_pacing_error_ratio", labels] == error, budget
