from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
import torch

from shadowprice.errors import InvalidInput
from shadowprice.graphs.build import build_snapshot
from shadowprice.responses import load, make
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.joint.model import JointModel, JointSpec
from shadowprice.responses.training import TrainingConfig
from shadowprice.testing import assert_monotone

LEVELS = [20, 50, 100]
QUICK = TrainingConfig(epochs=60, learning_rate=1e-2)


def frame(rows: int = 3000, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    x = random.normal(size=rows)
    level = random.integers(0, 3, rows)
    p = 1 - np.exp(-np.exp(0.8 * x - 0.5) * np.array(LEVELS)[level] / 100)
    return pd.DataFrame(
        {
            "account_id": [f"a{i}" for i in range(rows)],
            "level": level,
            "response": (random.random(rows) < p).astype(float),
            "x_trait": x,
        }
    )


@pytest.mark.parametrize("name", ["hazard", "dnn"])
def test_it_learns_the_curve_and_applies_it_to_accounts_it_never_saw(name: str) -> None:
    new = frame(500, seed=9).assign(account_id=[f"new{i}" for i in range(500)])
    curves = make(name, levels=LEVELS, training=QUICK).fit(frame()).curve(new)
    assert_monotone(curves.response)
    truth = 1 - np.exp(-np.exp(0.8 * new["x_trait"].to_numpy() - 0.5) * np.array(LEVELS)[:, None] / 100)
    assert np.abs(curves.response - truth).mean() < 0.05


def test_a_merchant_model_learns_a_line() -> None:
    random = np.random.default_rng(2)
    level = random.integers(0, 3, 3000)
    rows = pd.DataFrame(
        {
            "account_id": [f"m{i}" for i in range(3000)],
            "level": level,
            "response": 0.8 + 0.5 * np.array(LEVELS)[level] / 100 + 0.3 * random.normal(size=3000),
        }
    )
    curve = make("linear", levels=LEVELS, training=QUICK).fit(rows).curve(rows.head(1)).response[:, 0]
    np.testing.assert_allclose(curve, [0.9, 1.05, 1.3], atol=0.05)


def test_dnn_h_says_what_it_needs() -> None:
    rows = pd.DataFrame({"account_id": ["a", "b"] * 50, "level": [0, 1] * 50, "response": [0.0, 1.0] * 50})
    with pytest.raises(InvalidInput, match="snapshots: is missing: model 'dnn_h' reads it"):
        make("dnn_h", levels=LEVELS).fit(rows)


def test_of_several_weights_of_the_fused_penalty_the_one_that_predicts_held_out_accounts_best_is_kept(tmp_path) -> None:
    rows, asked = frame(600), frame(50, seed=1).drop(columns=["level", "response"])
    training = TrainingConfig(epochs=15, learning_rate=1e-2)
    grid = [0.0, 1e-2, 1.0]
    alone = [make("hazard", levels=LEVELS, training=training, fusion=each).fit(rows) for each in grid]
    loss = [each.result.validation_loss for each in alone]
    assert len(set(loss)) == 3
    together = make("hazard", levels=LEVELS, training=training, fusion=grid).fit(rows)
    assert together.fusion == grid[int(np.argmin(loss))]
    np.testing.assert_array_equal(together.curve(asked).response, alone[int(np.argmin(loss))].curve(asked).response)
    together.save(tmp_path)
    again = load(tmp_path, training=training)
    assert again.fusion == together.fusion
    np.testing.assert_array_equal(again.curve(asked).response, together.curve(asked).response)
    with pytest.raises(InvalidInput, match="fusion"):
        make("hazard", levels=LEVELS, fusion=[])


@pytest.mark.parametrize(("hits", "differs"), [(59, False), (60, True)])
def test_rows_of_one_account_calibrate_as_one_draw_whatever_snapshots_they_see(hits: int, differs: bool) -> None:
    """Half of 100 accounts respond in training; 59 of 100 are 1.83 standard errors more, 60 are 2.03."""
    names = [f"a{k}" for k in range(100)]
    edges = pd.DataFrame({"src": [], "dst": [], "weight": [], "ts": pd.to_datetime([], utc=True)})
    nodes = pd.DataFrame({"account_id": names, "side": "customer", "x_own": 0.0})
    first = build_snapshot(nodes, edges, datetime(2026, 1, 1, tzinfo=UTC))
    snapshots = [first, replace(first, at=first.at + timedelta(days=1))]
    rows = pd.DataFrame({"account_id": names, "level": 0, "response": np.arange(100) < 50}).astype({"response": float})
    spec = JointSpec(encoder="none", layers={"customer": "hazard"}, levels={"customer": (100,)})
    model = JointModel.prepare(spec, snapshots, {"customer": rows})
    with torch.no_grad():
        for parameter in model.network.encoder.parameters():
            parameter.zero_()
    held_out = rows.assign(response=(np.arange(100) < hits).astype(float))
    days = [held_out.assign(snapshot_at=each.at.timestamp()) for each in snapshots]
    found = model.calibrate(Inputs(snapshots=snapshots), {"customer": pd.concat(days, ignore_index=True)})
    assert (found["customer"] > 0) is differs


def test_one_account_and_times_that_are_no_numbers_are_refused() -> None:
    rows = frame(40)
    with pytest.raises(InvalidInput, match="account_id: needs at least two accounts"):
        make("hazard", levels=LEVELS).fit(rows.assign(account_id="a"))
    for at in (pd.Timestamp("2026-01-01"), pd.Timestamp("2026-01-01", tz="UTC"), "2026-01-01"):
        with pytest.raises(InvalidInput, match="snapshot_at: must be unix seconds"):
            make("hazard", levels=LEVELS).fit(rows.assign(snapshot_at=at))
