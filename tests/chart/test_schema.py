"""The chart's schema refuses a bad value by name, whatever the rule, with both generations of Helm.

Each rule of the schema is broken once. Rules about different values are broken in one rendering.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from helm_python import HelmError
from rendering import CASES, CHART, render, template, values_of
from schema_rules import SAYS, SCHEMA, Case, cases, objects

from serving.http.limits import MAX_ITEMS

MINIMAL = values_of(CHART / "ci" / "minimal-values.yaml")
RULES = list(cases())
# Helm's own, and parts of a pod that Kubernetes describes: what is in them is held against its schemas once rendered.
FREE = {
    "global",
    "campaignFields.experiment",
    "campaignFields.portfolio",
    "campaigns.*.fields.experiment",
    "campaigns.*.fields.portfolio",
    *(
        f"{role}.affinity.{kind}"
        for role in ("predictor", "ledger")
        for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity")
    ),
    *(
        f"{role}.extraEnv.[].valueFrom"
        for role in (
            "predictor",
            "ledger",
            "resolve",
            "watch",
            "promote",
            "decide",
            "portfolio",
            "console",
            "stream",
            "training.ray",
        )
    ),
    "monitoring.podMonitor.tlsConfig",
    *(f"monitoring.podMonitor.{kind}.[]" for kind in ("relabelings", "metricRelabelings")),
}


def batches() -> list[list[Case]]:
    """Return the rules in few values files, no two rules of a file about the same value."""
    made: list[list[Case]] = []
    for case in RULES:
        for batch in made:
            if not any(overlap(case.path, other.path) for other in batch):
                batch.append(case)
                break
        else:
            made.append([case])
    return made


def overlap(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    """Return whether one place is the other or lies in it."""
    return all(x == y for x, y in zip(a, b, strict=False))


BATCHES = batches()
each_batch = pytest.mark.parametrize("batch", BATCHES, ids=[f"batch-{i}" for i in range(len(BATCHES))])


def broken(batch: list[Case]) -> dict[str, Any]:
    """Return values that break each rule of a batch."""
    values = MINIMAL
    for case in batch:
        values = case.into(values)
    return values


def test_the_batches_hold_every_rule() -> None:
    assert sorted(map(str, RULES)) == sorted(str(case) for batch in BATCHES for case in batch)
    assert len(RULES) > 350


@each_batch
def test_helm_4_refuses_each_value_at_its_place_by_its_rule(batch: list[Case]) -> None:
    with pytest.raises(HelmError) as refused:
        render(broken(batch))
    lines = [line.strip() for line in str(refused.value).splitlines()]
    missed = []
    for case in batch:
        place = "/" + "/".join(case.told) if case.told else ""
        told = [line for line in lines if line.startswith(f"- at '{place}':")]
        named = f"'{case.path[-1]}'" if case.keyword == "required" and case.value is None else ""
        if not any(re.search(SAYS[case.keyword], line) and named in line for line in told):
            missed.append(f"{case}: {told}")
    assert missed == []


def test_helm_3_refuses_each_value_at_its_place(helm: str, tmp_path: Path) -> None:
    path = tmp_path / "values.yaml"
    for batch in BATCHES:
        path.write_text(yaml.safe_dump(broken(batch)))
        done = template(helm, path)
        assert done.returncode != 0
        places = {line[2:].partition(":")[0] for line in done.stderr.splitlines() if line.startswith("- ")}
        assert {".".join(case.told) or "(root)" for case in batch} <= places


def test_no_object_takes_a_key_that_nobody_reads() -> None:
    open_ends = {place for place, schema in objects() if schema.get("additionalProperties") in (None, True)}
    assert open_ends == FREE


def test_every_value_of_the_chart_has_a_rule_and_every_rule_a_value() -> None:
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())

    def missing(schema: dict[str, Any], values: dict[str, Any], path: str) -> list[str]:
        known = schema.get("properties")
        if known is None:
            return []
        found = [f"{path}.{key}" for key in set(known) ^ set(values)]
        for key in set(known) & set(values):
            if isinstance(values[key], dict) and values[key]:
                found += missing(known[key], values[key], f"{path}.{key}")
        return found

    assert [path for path in missing(SCHEMA, defaults, "") if path != ".global"] == []


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_the_values_that_are_tested_break_no_rule(case: Path) -> None:
    assert render(values_of(case))


def test_a_call_has_at_most_the_requests_of_a_message_to_the_ledger() -> None:
    assert SCHEMA["properties"]["predictor"]["properties"]["maxInstances"]["maximum"] == MAX_ITEMS
