"""Squared errors of two models on logged rows, each level alike."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import cache

import numpy as np
import pandas as pd
import pytest

from shadowprice.curves import Curves
from shadowprice.graphs.build import build_snapshot
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.learning.comparison.prediction import compare_prediction
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.inputs import Inputs

LEVELS = np.array([10, 50, 100])
RATE = np.array([0.1, 0.3, 0.6])


def names(rows: int) -> list[str]:
    return [f"u{i}" for i in range(rows)]


@cache
def untied(rows: int) -> GraphSnapshot:
    """Accounts without ties, the same in each trial of a size."""
    nodes = pd.DataFrame({"account_id": names(rows), "side": "customer", "x_trait": 0.0})
    edges = pd.DataFrame({"src": [], "dst": [], "weight": [], "ts": pd.to_datetime([], utc=True)})
    return build_snapshot(nodes, edges, pd.Timestamp(datetime(2026, 1, 1, tzinfo=UTC)))


def logged(rows: int, chance: np.ndarray, seed: int = 0) -> TrainingSet:
    """A log whose levels are drawn with ``chance``; half of it is the test split."""
    rng = np.random.default_rng(seed)
    level = rng.choice(3, size=rows, p=chance)
    snapshot = untied(rows)
    frame = pd.DataFrame(
        {
            "account_id": names(rows),
            "partner_id": None,
            "level": level,
            "response": (rng.random(rows) < RATE[level]).astype(float),
            "propensity": chance[level],
            "split": np.where(np.arange(rows) % 2, "test", "train"),
            "snapshot_at": snapshot.at.timestamp() + np.linspace(0.0, 10.0, rows) * 86_400.0,
        }
    )
    return TrainingSet(
        {"customer": frame}, {}, Inputs(snapshots=[snapshot]), {"customer": (10, 50, 100)}, {"customer": ()}
    )


def curves(data: TrainingSet, rate) -> dict:
    """Give every test row one curve."""
    rows = len(data.part("test")["customer"])
    return {"customer": Curves(LEVELS, np.repeat(np.float32(rate)[:, None], rows, axis=1))}


def test_every_level_counts_alike_however_often_the_policy_chose_it() -> None:
    """Check a closed form: E(y − p)² is r(1 − r) where p = r, and a wrong level adds a third of its squared bias."""
    wrong = np.array([0.1, 0.3, 0.3])
    noise, bias = np.mean(RATE * (1 - RATE)), np.mean((RATE - wrong) ** 2)
    expected = noise / (noise + bias) - 1
    for chance in (np.full(3, 1 / 3), np.array([0.9, 0.05, 0.05])):
        data = logged(60_000, chance)
        found = compare_prediction(data, curves(data, RATE), curves(data, wrong), 200)
        assert found is not None
        assert found.low < expected < found.high
        assert found.value == pytest.approx(expected, abs=0.02)


def test_the_interval_covers_the_change_as_often_as_it_says() -> None:
    wrong = np.array([0.1, 0.35, 0.5])
    expected = np.mean(RATE * (1 - RATE)) / np.mean(RATE * (1 - RATE) + (RATE - wrong) ** 2) - 1
    covered = 0
    for seed in range(100):
        data = logged(1_200, np.array([0.6, 0.2, 0.2]), seed)
        found = compare_prediction(data, curves(data, RATE), curves(data, wrong), 200)
        assert found is not None
        covered += found.low < expected < found.high
    # Of 100 at 95 %: a share outside has a probability below 1 %.
    assert 0.89 <= covered / 100 <= 0.99


def test_rows_without_propensities_are_not_compared() -> None:
    data = logged(100, np.full(3, 1 / 3))
    data = replace(data, rows={"customer": data.rows["customer"].drop(columns="propensity")})
    assert compare_prediction(data, curves(data, RATE), curves(data, RATE), 10) is None


def test_the_newest_test_rows_alone_are_kept_and_training_rows_stay() -> None:
    data = logged(1_000, np.full(3, 1 / 3))
    newest = data.newest(2.0)
    assert len(newest.part("train")["customer"]) == len(data.part("train")["customer"])
    kept, rows = newest.part("test")["customer"]["snapshot_at"], data.rows["customer"]["snapshot_at"]
    assert kept.min() >= rows.max() - 2 * 86_400.0
    assert len(kept) == pytest.approx(100, abs=2)
    assert data.newest(0.0) is data
