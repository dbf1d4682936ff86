"""What importing the package does to the process; each in a process of its own."""

import json
import os
import subprocess
import sys

import pytest

from feature_repo.sdk import METRIC_FILES, untouched_process

SCRIPT = """
import json, os, sys, warnings
filters = list(warnings.filters)
import feature_repo
light = "feast" in sys.modules
from feature_repo.sdk import METRIC_FILES
import prometheus_client
counter = prometheus_client.Counter("requests", "Requests.", ["side"])
counter.labels("customer").inc()
warnings.simplefilter("error")
counter.remove("customer")
print(json.dumps({
    "light": light,
    "variables": {name: os.environ.get(name) for name in METRIC_FILES},
    "multiprocess": prometheus_client.values.ValueClass._multiprocess,
    "foreign": [family.name for family in prometheus_client.REGISTRY.collect() if family.name.startswith("feast")],
    "torch": "torch" in sys.modules,
    "filters": warnings.filters[1:] == filters,
}))
"""


def process(**environment: str) -> dict[str, object]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PROMETHEUS_")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=kept | environment, capture_output=True, text=True, check=True, timeout=120
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_importing_feast_leaves_metrics_warnings_and_torch_alone() -> None:
    assert process() == {
        "light": False,
        "variables": {"PROMETHEUS_MULTIPROCESS_DIR": None, "PROMETHEUS_MULTIPROC_DIR": None},
        "multiprocess": False,
        "foreign": [],
        "torch": False,
        "filters": True,
    }


def test_a_metric_folder_that_was_chosen_stays_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in METRIC_FILES:
        monkeypatch.setenv(name, "chosen")
    with untouched_process():
        os.environ.update(dict.fromkeys(METRIC_FILES, "taken over"))
    assert {os.environ[name] for name in METRIC_FILES} == {"chosen"}
