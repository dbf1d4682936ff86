import json
import sys
from importlib import import_module

import pytest

from benchmarks import __main__ as command


@pytest.mark.parametrize("name", command.BENCHMARKS)
def test_every_benchmark_can_be_run(name: str) -> None:
    assert callable(import_module(f"benchmarks.{name}").run)


def test_a_benchmark_writes_its_figures(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "decision", "--quick"])
    command.main()
    rows = json.loads((tmp_path / "decision.json").read_text())["decide"]
    assert all(row["per_second"] > 0 for row in rows)
    assert str(tmp_path) in capsys.readouterr().out
