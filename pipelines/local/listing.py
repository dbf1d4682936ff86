"""List of the pipelines: titles, inputs with their meaning and default, and the options of their jobs."""

import json
from collections.abc import Iterator
from typing import Any

from pipelines.local import PIPELINES, pipeline_of
from pipelines.parameters import PARAMETERS, SETTINGS, usual


def listed() -> list[dict[str, Any]]:
    """Return each pipeline as plain JSON types, its inputs in the order of a form."""
    return [_one(name) for name in PIPELINES]


def _one(name: str) -> dict[str, Any]:
    pipeline = pipeline_of(name)
    known = pipeline.component_spec.inputs
    described = {
        option: {"default": known[option].default, "description": " ".join(known[option].description.split())}
        for option in sorted(PARAMETERS[name].inputs)
    }
    info = pipeline.pipeline_spec.pipeline_info
    return {
        "name": name,
        "title": info.display_name,
        "description": info.description,
        "inputs": described,
        SETTINGS: usual(name),
    }


def lines() -> Iterator[str]:
    """Return the list as text for a terminal."""
    for entry in listed():
        yield f"{entry['name']:<10} {entry['description']}"
        for name, option in entry["inputs"].items():
            default = "" if option["default"] == "" else f" [{option['default']}]"
            yield f"  {name:<10} {option['description']}{default}"
        yield f"  {SETTINGS:<10} --set NAME=VALUE for every job that has it; `shadowprice job JOB --help` explains them"
        for job, options in entry[SETTINGS].items():
            given = (f"{name}={json.dumps(value)}" if value != "" else name for name, value in options.items())
            yield f"    {job:<10} {' '.join(given)}"
