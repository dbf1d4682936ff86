"""The command that judges a recipe by rolling origin on a user's own tables."""

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipelines import rolling
from shadowprice.datasets import load
from shadowprice.datasets.folder import write_tables
from shadowprice.errors import NotFound
from shadowprice.learning.recipes import Training


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of a small generated campaign, spread over four weeks."""
    tables = load("world", customers=300, merchants=60, both=10, trials=4).tables
    start = tables.exposure["decided_at"].min().normalize()
    days = np.random.default_rng(0).uniform(0, 28, len(tables.exposure))
    exposure = tables.exposure.assign(decided_at=start + pd.to_timedelta(days, unit="D"))
    at = exposure.set_index("request_id")["decided_at"]
    known = tables.outcome["request_id"].map(at) + pd.Timedelta(hours=1)
    path = tmp_path_factory.mktemp("own") / "tables"
    write_tables(tables.replaced(exposure=exposure, outcome=tables.outcome.assign(observed_at=known)), path)
    return path


def test_every_cut_is_printed_with_its_figures(folder: Path, capsys) -> None:
    given = ["--data", str(folder), "--first", "2026-03-18", "--last", "2026-03-25", "--judge-days", "5"]
    given += ["--recipe", "gbdt", "--calibration", "rolling"]
    assert rolling.main(given) == 0
    lines = capsys.readouterr().out.strip().splitlines()
    assert len(lines) == 2 + 2 * 2
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    assert {(cell[0], cell[2]) for cell in cells} == {
        (at, side) for at in ("2026-03-18", "2026-03-25") for side in ("customer", "merchant")
    }
    for cell in cells:
        assert int(cell[3]) > 30
        assert 0 < float(cell[4]) < 2
        assert float(cell[-1]) == 0
    assert rolling.main([*given, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    told = [[f"{cut['origin']['at']:.10}", side, each] for cut in found for side, each in cut["sides"].items()]
    assert [(at, side) for at, side, _ in told] == [(cell[0], cell[2]) for cell in cells]
    assert [f"{each['predicted']:.4g}" for _, _, each in told] == [cell[4] for cell in cells]


def test_what_cannot_be_judged_is_refused_before_anything_is_loaded(capsys) -> None:
    at = datetime(2026, 3, 16, tzinfo=UTC)
    with pytest.raises(NotFound, match="magic"):
        rolling.rolling("tables", "nowhere", rolling.origins(at, at), Training("magic"))
    assert rolling.main(["--first", "2026-03-16", "--last", "2026-03-16", "--judge-days", "0"]) == 1
    assert "judge_days" in capsys.readouterr().err
    assert rolling.main(["--first", "2026-03-16", "--last", "2026-03-01"]) == 1
    assert "rolling failed: last" in capsys.readouterr().err
    assert rolling.main(["--first", "soon", "--last", "2026-03-01"]) == 2
    assert "write a date" in capsys.readouterr().err
