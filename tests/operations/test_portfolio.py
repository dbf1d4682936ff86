"""One sum of money for several workspaces: the proposal, its certificate and its words."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asked import make_workspace

import cli.main as command
from operations.common.workspace import CAMPAIGN, MODEL
from operations.questions.propose import propose
from operations.whatif import open_what_if
from shadowprice.errors import InvalidInput
from shadowprice.learning.bundle import POSTERIOR
from shadowprice.pacing.what_if import Change
from shadowprice.responses.posterior import CurvePosterior


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two campaigns on the same accounts: the second has a fifth of the money and twice the worth of a merchant."""
    first = make_workspace(tmp_path_factory.mktemp("first"))
    second = tmp_path_factory.mktemp("second") / "run"
    shutil.copytree(first, second)
    change(first, name="spring")
    campaign = change(second, name="merchants")
    campaign["budget"]["limit"] //= 5
    campaign["sides"]["merchant"]["weight"] *= 2
    (second / CAMPAIGN).write_text(json.dumps(campaign))
    return [first, second]


def change(folder: Path, **fields: Any) -> dict[str, Any]:
    campaign: dict[str, Any] = json.loads((folder / CAMPAIGN).read_text()) | fields
    (folder / CAMPAIGN).write_text(json.dumps(campaign))
    return campaign


def test_the_last_unit_of_money_returns_the_same_and_no_other_division_brings_more(runs: list[Path]) -> None:
    found = propose(runs, rows=300)
    assert found.portfolio.gap < 1e-6
    assert sum(proposal.then.budget for proposal in found.of.values()) <= found.total
    prices = [proposal.then.price.value for proposal in found.of.values()]
    assert prices[0] == pytest.approx(prices[1], rel=0.02)
    assert found.of["merchants"].now.price.value > found.of["spring"].now.price.value
    assert found.of["merchants"].moved > 0 > found.of["spring"].moved
    assert found.gained > 0
    # Brute force: value at every percent of the money, from the same solves.
    solvers = [open_what_if(run, rows=300).solver for run in runs]
    values = [
        sum(
            solver.ask(Change(budget=round(part * found.total))).value.value
            for solver, part in zip(solvers, (share, 1 - share), strict=True)
        )
        for share in np.linspace(0, 1, 26)
    ]
    assert max(values) <= found.portfolio.value * (1 + 1e-6)


def test_floors_and_caps_hold_and_alike_campaigns_are_left_alone(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cap = ["--cap", "merchants=400", "--rows", "300"]
    assert command.main(["portfolio", *map(str, runs), *cap, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["campaigns"]["merchants"]["proposed"] == 40_000
    twin = tmp_path / "twin"
    shutil.copytree(runs[0], twin)
    change(twin, name="twin")
    assert command.main(["portfolio", str(runs[0]), str(twin), "--rows", "300"]) == 0
    assert "leave the budgets" in capsys.readouterr().out


def test_returns_differ_only_beyond_the_errors_of_the_curves(runs: list[Path], tmp_path: Path) -> None:
    copies = [Path(shutil.copytree(folder, tmp_path / folder.parent.name / folder.name)) for folder in runs]
    law = CurvePosterior(np.zeros(4), np.diag([0.01, 0.3, 0.3, 0.3])).to_dict()
    for folder in copies:
        meta = json.loads((folder / MODEL / "model.json").read_text()) | {POSTERIOR: {"customer": law}}
        (folder / MODEL / "model.json").write_text(json.dumps(meta))
    sure, unsure = (propose(folders, rows=0).of["merchants"] for folders in (runs, copies))
    assert sure.beyond_noise
    assert sure.returns == sure.now.price
    assert unsure.returns.high - unsure.returns.low > sure.returns.high - sure.returns.low
    assert not unsure.beyond_noise


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "spring"}, "another campaign of the name 'spring'"),
        ({"currency": "EUR"}, "currency: must be one of all campaigns"),
        ({"budget": {"name": "day", "limit": 12.5, "form": "per_account"}}, "only totals can be divided"),
    ],
)
def test_campaigns_whose_money_cannot_be_added_are_refused(
    runs: list[Path], tmp_path: Path, fields: dict[str, Any], words: str
) -> None:
    other = tmp_path / "other"
    shutil.copytree(runs[1], other)
    change(other, **fields)
    with pytest.raises(InvalidInput, match=words):
        propose([runs[0], other], rows=100)
    with pytest.raises(InvalidInput, match="above the total"):
        propose(runs, total=1000, floors={"spring": 2000}, rows=100)
