"""Plans of other sizes and fees, against an assignment by the Hungarian method."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.optimize import linear_sum_assignment

from cli.whatif import main
from operations.whatif import WhatifJob, run
from shadowprice.allocation import solve_demands
from shadowprice.campaign import Budget, Campaign, Segment, Terms
from shadowprice.errors import InvalidInput
from shadowprice.pacing.history import Accounts, Traffic
from shadowprice.pacing.population import write_population
from shadowprice.responses.funds.delivered import SIDE
from shadowprice.responses.layers.heads import DeliveryHead, save_heads

COUNT, SIZES, RISK = 60, (30, 20, 10), (-np.inf, 1.0, 2.0)


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def value(random: np.random.Generator) -> np.ndarray:
    return random.uniform(0, 1000, (3, COUNT)).astype(np.float32)


@pytest.fixture
def tolerance() -> np.ndarray:
    return np.repeat([0.0, 1.0, 2.0], COUNT // 3)


@pytest.fixture
def workspace(tmp_path: Path, value: np.ndarray, tolerance: np.ndarray) -> Path:
    segments = tuple(
        Segment(name=f"fund-{j}", demand=size, risk_level=None if j == 0 else j) for j, size in enumerate(SIZES)
    )
    campaign = Campaign(
        name="funds",
        sides={SIDE: Terms(levels=(0, 1, 2), cost_basis="on_grant", segments=segments)},
        budget=Budget(name="none", limit=0),
        starts_at=datetime(2026, 3, 1, tzinfo=UTC),
    )
    (tmp_path / "campaign.json").write_text(json.dumps(campaign.to_dict()))
    model = tmp_path / "model"
    model.mkdir()
    stored = np.vstack([value, tolerance, np.zeros((60, COUNT))]).T.astype(np.float32)
    head = DeliveryHead(levels=np.arange(3), default_embedding=stored[0], risk_level=np.array(RISK))
    save_heads({SIDE: head}, model)
    (model / "model.json").write_text(json.dumps({"model_version": "m1"}))
    names = np.array([f"a{i}" for i in range(COUNT)])
    frame = pd.DataFrame({"account_id": names, "side": SIDE, "embedding": list(stored)})
    frame.to_parquet(model / "embeddings.parquet", index=False)
    traffic = Traffic({}, {SIDE: Accounts(names, np.ones(COUNT))})
    write_population(tmp_path / "population" / "m1", {SIDE: head}, model / "embeddings.parquet", traffic)
    return tmp_path


def best(value: np.ndarray, tolerance: np.ndarray, sizes: tuple[int, ...], fees: tuple[float, ...]) -> float:
    seat = np.repeat(np.arange(4), (*sizes, COUNT - sum(sizes)))
    allowed = np.array([*RISK, -np.inf])[:, None] <= tolerance
    worth = np.vstack([np.array(fees)[:, None] * value, np.zeros(COUNT)])
    gain = np.where(allowed, worth, -1e9)[seat]
    return float(gain[linear_sum_assignment(-gain)].sum())


def test_other_sizes_and_fees_are_solved_again(workspace: Path, value: np.ndarray, tolerance: np.ndarray) -> None:
    job = WhatifJob(
        answer=workspace / "answer.json", workspace=workspace, sizes={"fund-0": 15, "fund-2": 12}, fees={"fund-1": 0.2}
    )
    found = run(job)
    assert found == json.loads(job.answer.read_text())
    assert found["current"]["value"] == pytest.approx(best(value, tolerance, SIZES, (1, 1, 1)), rel=1e-6)
    asked = found["asked"]
    assert asked["value"] == pytest.approx(best(value, tolerance, (15, 20, 12), (1, 0.2, 1)), rel=1e-6)
    assert [(each["name"], each["demand"]) for each in asked["places"]] == [
        ("fund-0", 15),
        ("fund-1", 20),
        ("fund-2", 12),
        ("none", 13),
    ]
    for j, place in enumerate(asked["places"][:3]):
        more = [15, 20, 12]
        more[j] += 1
        assert best(value, tolerance, tuple(more), (1, 0.2, 1)) - asked["value"] <= place["price"] + 1e-2
        told = "brings" if place["price"] >= 0 else "costs"
        assert place["meaning"].startswith(f"one more place in fund-{j}, and one fewer in none, {told} $")


def test_the_intervals_are_those_of_a_total_over_accounts(
    workspace: Path, value: np.ndarray, tolerance: np.ndarray
) -> None:
    """Against the t interval of the mean by scipy; the change is paired by account."""
    answer = workspace / "answer.json"
    found = run(WhatifJob(answer=answer, workspace=workspace, fees={"fund-0": 0.5, "fund-1": 0.5, "fund-2": 0.5}))
    plan = solve_demands(value, SIZES, np.array(RISK)[:, None] <= tolerance).segment
    worth = value[plan, np.arange(COUNT)].astype(float)
    # With half of every fee the plan is the same.
    for name, own in (("current", worth), ("asked", worth / 2), ("change", -worth / 2)):
        error = stats.sem(own)
        low, high = stats.t.interval(0.95, COUNT - 1, loc=own.mean(), scale=error)
        told = [found[name][bound] for bound in ("value", "low", "high")]
        assert told == pytest.approx([own.sum(), COUNT * low, COUNT * high], rel=1e-6)


def test_what_a_delivery_does_not_have_is_refused(workspace: Path) -> None:
    answer = workspace / "answer.json"
    with pytest.raises(InvalidInput, match=r"campaign: has no segment 'gold'; it has fund-0, fund-1, fund-2"):
        run(WhatifJob(answer=answer, workspace=workspace, sizes={"gold": 3}))
    with pytest.raises(InvalidInput, match=r"sizes: there is no plan: \['fund-1', 'fund-2'\]"):
        run(WhatifJob(answer=answer, workspace=workspace, sizes={"fund-0": 5, "fund-2": 25}))
    with pytest.raises(InvalidInput, match="sizes: are 65 places for 60 accounts"):
        run(WhatifJob(answer=answer, workspace=workspace, sizes={"fund-0": 35}))
    with pytest.raises(InvalidInput, match="is a delivery: ask about sizes and fees"):
        run(WhatifJob(answer=answer, workspace=workspace, budget=10.0))
    assert not answer.exists()


def test_the_command_says_what_a_place_brings(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(workspace), "--size", "fund-0=25"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Predicted value: $" in shown
    assert re.search(r"a change of −\$[\d,.]+ \[−?\$[\d,.]+, −?\$[\d,.]+\]\. Intervals are over accounts", shown)
