"""List of the pipelines: titles, inputs with their meaning and default, and the jobs whose options they take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipelines.local import PIPELINES, pipeline_of
from pipelines.parameters import PARAMETERS

FIRST = ("workspace", "data", "dataset")
"""Inputs that most runs set."""


def listed() -> list[dict[str, Any]]:
    """Return each pipeline as plain JSON types, the inputs that most runs set first."""
    return [_one(name) for name in PIPELINES]


def _one(name: str) -> dict[str, Any]:
    pipeline, (inputs, jobs) = pipeline_of(name), PARAMETERS[name]
    known = pipeline.component_spec.inputs
    order = sorted(inputs, key=lambda each: FIRST.index(each) if each in FIRST else len(FIRST))
    described = {
        option: {"default": known[option].default, "description": " ".join(known[option].description.split())}
        for option in order
    }
    info = pipeline.pipeline_spec.pipeline_info
    return {
        "name": name,
        "title": info.display_name,
        "description": info.description,
        "inputs": described,
        "jobs": [*jobs],
    }


def lines() -> Iterator[str]:
    """Return the list as text for a terminal."""
    for entry in listed():
        yield f"{entry['name']:<10} {entry['description']}"
        for name, option in entry["inputs"].items():
            default = "" if option["default"] == "" else f" [{option['default']}]"
            yield f"  {name:<10} {option['description']}{default}"
        yield f"  options of {', '.join(entry['jobs'])}: --set NAME=VALUE; shadowprice job JOB --help lists them"
