"""The benchmark of the whole loop: its table of known costs."""

from benchmarks import scale


def step(processor: float, failed: str = "") -> dict[str, object]:
    return {"seconds": 2 * processor, "processor": processor, "gib": processor / 10, "bytes": 1e6, "failed": failed}


CELLS = {
    "prepare 1000": {"found": step(2.0)},
    "train 1000": {"found": step(5.0)},
    "prepare 10000": {"found": step(20.0)},
    "train 10000": {"found": step(5.0)},
}
LARGER = {"prepare 100000": {"found": step(7.0, "out of memory")}}


def rows_of(cells: dict[str, dict[str, object]]) -> list[list[str]]:
    text = scale.table({"scale": {"cells": cells}})
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines()]


def test_the_table_tells_growth_total_and_failure() -> None:
    rows = rows_of(CELLS)
    assert ["10,000", "prepare", "40.0", "20.0", "2.00", "1", "1.00"] in rows
    assert ["10,000", "train", "10.0", "5.0", "0.50", "1", "0.00"] in rows
    assert rows[-1][:6] == ["10,000", "**all**", "50.0", "25.0", "2.00", "2"]
    assert [row[1] for row in rows if row[0] == "1,000"] == ["**all**"]
    assert "out of memory" in rows_of(CELLS | LARGER)[-2]
