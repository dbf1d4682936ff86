"""The chart's schema refuses a bad value by name, whatever the rule, with both generations of Helm."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from helm_python import HelmError
from rendering import CASES, CHART, render, template, values_of
from schema_rules import SAYS, SCHEMA, Case, cases, objects

MINIMAL = values_of(CHART / "ci" / "minimal-values.yaml")
RULES = list(cases())
# Helm's own, and parts of a pod that Kubernetes describes: what is in them is held against its schemas once rendered.
FREE = {
    "global",
    *(
        f"{role}.affinity.{kind}"
        for role in ("predictor", "ledger")
        for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity")
    ),
}


@pytest.mark.parametrize("case", RULES, ids=str)
def test_a_value_that_breaks_a_rule_is_refused_at_its_place(case: Case) -> None:
    with pytest.raises(HelmError) as refused:
        render(case.into(MINIMAL))
    place = "/" + "/".join(case.told) if case.told else ""
    told = [line for line in str(refused.value).splitlines() if line.startswith(f"- at '{place}':")]
    assert any(re.search(SAYS[case.keyword], line) for line in told), str(refused.value)


def batches() -> list[list[Case]]:
    """The rules in few values files, no two of them about the same value."""
    made: list[list[Case]] = []
    for case in RULES:
        for batch in made:
            if not any(shared(case.path, other.path) for other in batch):
                batch.append(case)
                break
        else:
            made.append([case])
    return made


def shared(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    return all(x == y for x, y in zip(a, b, strict=False))


def test_the_command_line_refuses_every_one_of_them_too(helm: str, tmp_path: Path) -> None:
    for batch in batches():
        values: dict[str, Any] = MINIMAL
        for case in batch:
            values = case.into(values)
        path = tmp_path / "values.yaml"
        path.write_text(yaml.safe_dump(values))
        done = template(helm, path)
        assert done.returncode != 0
        places = {line[2:].partition(":")[0] for line in done.stderr.splitlines() if line.startswith("- ")}
        expected = {".".join(case.told) or "(root)" for case in batch}
        assert expected <= places


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
