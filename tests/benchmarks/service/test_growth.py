"""The chart's default claim takes a year of 10⁸ decisions."""

from pathlib import Path

import yaml

from benchmarks.service.growth import YEAR, measure

VALUES = Path(__file__).resolve().parents[3] / "helm" / "shadowprice" / "values.yaml"
ALARM = 0.1
"""Share of the volume below which the chart's rules fire."""


def test_the_default_claim_holds_a_year_and_a_backup_copy_without_an_alarm() -> None:
    size = yaml.safe_load(VALUES.read_text())["ledger"]["storage"]["size"]
    assert size.endswith("Gi")
    found = measure(5_000)
    assert 300 < found["store"] < 600
    assert 20 < found["log"] < 150
    # The file, a copy of it while it is backed up, and the log.
    assert YEAR * (2 * found["store"] + found["log"]) < (1 - ALARM) * int(size[:-2]) * 2**30
