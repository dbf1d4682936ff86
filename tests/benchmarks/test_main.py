import json
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.cells import Cells
from benchmarks.document import PAGES, TABLES, filled

MODULE = """
import numpy as np
from benchmarks.timing import stream_read

def run(cells, quick):
    return {"seconds": cells.of("ones", lambda: stream_read(np.ones(1000 if quick else 10**6)))}
"""


@pytest.mark.parametrize("name", command.BENCHMARKS)
def test_every_benchmark_can_be_run(name: str) -> None:
    assert callable(import_module(command.BENCHMARKS[name]).run)


def test_a_benchmark_writes_its_figures(tmp_path, monkeypatch, capsys) -> None:
    (tmp_path / "reads_of_ones.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    monkeypatch.setitem(command.BENCHMARKS, "reads", "reads_of_ones")
    assert command.main(["reads", "--quick"]) == 0
    assert 0 < json.loads((tmp_path / "quick" / "reads.json").read_text())["seconds"] < 1
    assert str(tmp_path) in capsys.readouterr().out


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "part.json"
    first = Cells(path)
    first.of("a", lambda: 1)
    with pytest.raises(KeyboardInterrupt):
        first.of("b", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    again = Cells(path, kept=True)
    assert again.of("a", lambda: pytest.fail("measured twice")) == 1
    assert again.of("b", lambda: 2) == 2
    again.finish({"rows": [1, 2]})
    written = json.loads(path.read_text())
    assert written["rows"] == [1, 2]
    assert set(written["cells"]) == {"a", "b"}
    assert Cells(path).of("a", lambda: 3) == 3


def test_the_documents_tables_are_written_from_results_and_nothing_else() -> None:
    row = {
        "accounts": 10_000,
        "kind": "one",
        "seconds": 5e-4,
        "processor": 6e-4,
        "read": 1e-5,
        "reads": 50.0,
        "gap": 0.0,
    }
    row |= {"difference": 0.0, "violation": -1e-17, "peak": 3.0, "megabytes": 0.4}
    row |= {"growth": None, "rounded_gap": 1e-6}
    rows = [row | {"solver": "engine", "ratio": 1.0}, row | {"solver": "HiGHS ipm", "ratio": 1234.0}]
    found = {"allocation": {"rows": rows, "cells": {"x": {"took": 1.0, "load": 1.0}}}}
    found["allocation"]["machine"] = {"processor": "P", "cores": 2, "load": 0.0}
    text = filled("kept <!-- goals -->\nold\n<!-- end --> kept <!-- sizes -->\nold\n<!-- end -->", found)
    assert text.startswith("kept <!-- goals -->\n3 of 9 goals are met. The others:\n\n| goal |")
    assert text.endswith("kept <!-- sizes -->\nold\n<!-- end -->")
    assert "one budget, 10,000:" not in text
    assert "| one budget, 1,000,000: ≤ 3 reads | not measured |" in text
    found["allocation"]["rows"][1]["ratio"] = 999.0
    missed = "| one budget, 10,000: ≥ 1,000 × HiGHS's interior point | 999 × |"
    assert missed in filled("<!-- goals -->\nold\n<!-- end -->", found)
    pages = "".join(page.read_text() for page in PAGES)
    assert all(pages.count(f"<!-- {name} -->") == 1 for name in TABLES)


def test_replicas_of_the_ledger_have_a_row_each() -> None:
    replica = {"replicas": 2.0, "batch": 16.0, "ratio": 0.9, "per_second": 12345.0, "p50_ms": 3.0, "p99_ms": 9.0}
    found = {"ledger_replicas": {"rows": [replica | {"ledger_us": 45.0}], "cells": {}, "machine": {}}}
    text = filled("<!-- ledgerreplicas -->\n<!-- end -->\n", found)
    assert "| 2 | 16 | 12,345 | 0.90 | 3.0 | 9.0 | 45 |" in text


def test_capacity_follows_from_processor_time() -> None:
    def row(batch: int, connections: int, predictor: float, ledger: float) -> dict:
        place = {"protocol": "v2", "batch": batch, "connections": connections, "service": "ours"}
        return place | {"cpu_us": predictor, "ledger_us": ledger}

    serving = {"rows": [row(1, 32, 700.0, 140.0), row(100, 8, 14.0, 35.0)], "resident_mb": {"predictor": 246.4}}
    capacity = {"online": [{"width": 64, "bytes": 772.0}], "ledger": {"redis": {"decision": 673.0, "outcome": 295.0}}}
    proof = {"cells": {"x": {"took": 1.0, "load": 1.0}}, "machine": {"processor": "P", "cores": 2, "load": 0.0}}
    found = {"serving": serving | proof, "capacity": capacity | proof}
    names = ("calls", "replicas", "resident", "stores")
    text = filled("\n".join(f"<!-- {name} -->\n<!-- end -->" for name in names), found)
    # A core at 0.7 takes a thousand decisions of 700 microseconds; one more replica is for that which is replaced.
    assert "| one account, 32 connections | 700 | 140 | 5,000 a second |" in text
    assert "| 100 | 2 | 1 % | 2 | 0 % |" in text
    assert "| 1,000 | 2 | 14 % | 2 | 4 % |" in text
    assert "| 2,500 | 4 | 35 % | 2 | 9 % |" in text
    assert "| 5,000 | 6 | 70 % | 2 | 18 % |" in text
    assert "| 10,000 | beyond the ledger | 140 % | 2 | 35 % |" in text
    assert "| predictor | 246 MB |" in text
    assert "| online store's Redis, an account with an embedding of 64 | 772 | 0.77 GB |" in text
    assert "| ledger in redis, an outcome | 295 | 0.29 GB |" in text or "| 295 | 0.30 GB |" in text
