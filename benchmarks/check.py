"""Seconds that ``shadowprice check`` takes for a mapping's files: reading, converting and every rule of the tables."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.cells import Cells
from benchmarks.timing import best
from shadowprice.mapping import map_tables, read_mapping

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "docs" / "examples" / "mapping"
GOAL_SECONDS = 10.0
"""Longest time for a million rows."""


def run(cells: Cells, *, quick: bool = False) -> dict[str, Any]:
    """Check files like those of the tutorial: a customer for five coupons."""
    rows = 100_000 if quick else 1_000_000

    def measure() -> dict[str, float]:
        with tempfile.TemporaryDirectory() as folder:
            mapping = write(Path(folder), rows)
            seconds, tables = best(lambda: map_tables(read_mapping(mapping)), repeat=2)
        assert tables.rows()["exposure"] == rows
        return {"seconds": seconds}

    seconds = cells.of(f"{rows} rows", measure)["seconds"]
    print(f"check of {rows:,} rows: {seconds:.1f} s (goal for a million: {GOAL_SECONDS:.0f} s)")
    return {"rows": rows, "seconds": seconds}


def write(folder: Path, rows: int) -> Path:
    """Write customers, coupons and the mapping of the example to a folder; return the mapping."""
    rng = np.random.default_rng(0)
    customers = pd.read_csv(EXAMPLE / "kunden.csv", sep=";", decimal=",")
    customers = customers.sample(rows // 5, replace=True, random_state=0, ignore_index=True)
    customers["Kundennr"] = [f"K{number:07}" for number in range(len(customers))]
    customers.to_csv(folder / "kunden.csv", sep=";", decimal=",", index=False)
    coupons = pd.read_csv(EXAMPLE / "gutscheine.csv", sep=";", dtype=str)
    coupons = coupons.sample(rows, replace=True, random_state=0, ignore_index=True)
    coupons["Gutschein"] = [f"G{number:07}" for number in range(rows)]
    coupons["Kunde"] = customers["Kundennr"].to_numpy()[rng.integers(0, len(customers), rows)]
    coupons.to_csv(folder / "gutscheine.csv", sep=";", index=False)
    mapping = folder / "mapping.yaml"
    mapping.write_text((EXAMPLE / "mapping.yaml").read_text())
    return mapping
