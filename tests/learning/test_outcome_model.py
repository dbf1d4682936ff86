"""The outcome model of a replay learns nothing from the rows of the model that it judges."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from shadowprice.graphs.build import build_snapshot
from shadowprice.learning import outcome_model
from shadowprice.learning.outcome_model import fit_outcome_model, outcome_rows
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.inputs import Inputs

LEVELS = (0, 50, 100)
SIZE = 900
EPOCHS = 30


@pytest.fixture(scope="module")
def data() -> TrainingSet:
    """Make a log with two rows of each account in one split, and more response to more incentive."""
    rng = np.random.default_rng(0)
    users = [f"u{i // 2}" for i in range(SIZE)]
    level = rng.integers(0, 3, SIZE)
    nodes = pd.DataFrame({"account_id": sorted(set(users)), "side": "customer"})
    nodes["x_trait"] = rng.normal(size=len(nodes))
    edges = pd.DataFrame({"src": [], "dst": [], "weight": [], "ts": pd.to_datetime([], utc=True)})
    snapshot = build_snapshot(nodes, edges, pd.Timestamp("2026-01-01", tz="UTC"))
    rows = pd.DataFrame(
        {
            "request_id": [f"r{i}" for i in range(SIZE)],
            "account_id": users,
            "partner_id": None,
            "level": level,
            "response": (rng.random(SIZE) < np.array([0.1, 0.4, 0.7])[level]).astype(float),
            "propensity": 1 / 3,
            "split": np.repeat(["train", "validation", "test"], SIZE // 3),
            "snapshot_at": snapshot.at.timestamp() + 60.0,
        }
    )
    serving = {"customer": nodes[["account_id"]].assign(partner_id=None, snapshot_at=snapshot.at.timestamp())}
    return TrainingSet(
        {"customer": rows}, serving, Inputs(snapshots=[snapshot]), {"customer": LEVELS}, {"customer": ()}
    )


def changed(data: TrainingSet, split: str) -> TrainingSet:
    """Return the log with every response of a split reversed."""
    rows = data.rows["customer"]
    turned = rows["response"].where(rows["split"] != split, 1 - rows["response"])
    return replace(data, rows={"customer": rows.assign(response=turned)})


def test_its_rows_are_disjoint_from_those_of_the_served_model_and_its_calibration(data: TrainingSet) -> None:
    own = outcome_rows(data).rows["customer"]
    seen = pd.concat([data.part("train")["customer"], data.part("validation")["customer"]])
    assert not set(own["request_id"]) & set(seen["request_id"])
    assert set(own["request_id"]) == set(data.part("test")["customer"]["request_id"])
    # What it is stopped and calibrated on is a share of the accounts, and each account is on one side of that.
    held_out = own.groupby("account_id")["split"].nunique()
    assert (held_out == 1).all()
    assert 0.15 < (own["split"] == "validation").mean() < 0.35


@pytest.mark.parametrize("split", ["train", "validation"])
def test_what_the_served_model_learnt_from_changes_nothing_in_it(data: TrainingSet, split: str) -> None:
    before = fit_outcome_model(data, 0, EPOCHS)["customer"].response
    after = fit_outcome_model(changed(data, split), 0, EPOCHS)["customer"].response
    np.testing.assert_array_equal(after, before)


def test_it_learns_from_the_test_rows(data: TrainingSet) -> None:
    before = fit_outcome_model(data, 0, EPOCHS)["customer"].response.mean(axis=1)
    after = fit_outcome_model(changed(data, "test"), 0, EPOCHS)["customer"].response.mean(axis=1)
    assert before[2] > before[0] + 0.2
    assert abs(after - before).max() > 0.2


def test_its_training_is_bounded_whatever_the_size_and_the_epochs_of_the_run(
    data: TrainingSet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[tuple[int, int, int]] = []
    own = outcome_model.train

    def train(learnt: TrainingSet, name: str, config: Any, **more: Any) -> Any:
        accounts = learnt.rows["customer"]["account_id"].nunique()
        seen.append((config.epochs, accounts, max(each.nodes for each in learnt.snapshots)))
        return own(learnt, name, config, **more)

    monkeypatch.setattr(outcome_model, "train", train)
    monkeypatch.setattr(outcome_model, "MOST_ACCOUNTS", 60)
    curves = fit_outcome_model(data, 0, 400)["customer"]
    fit_outcome_model(data, 0, 7)
    (epochs, accounts, nodes), (fewer, *_) = seen
    assert (epochs, fewer) == (outcome_model.MOST_EPOCHS, 7)
    assert accounts <= 60
    assert nodes == accounts  # the graph that is read is that of the rows
    # All accounts have curves all the same.
    assert curves.response.shape == (3, len(data.serving["customer"]))


@pytest.mark.parametrize("accounts", [1, 2, 3])
def test_a_side_with_few_test_accounts_has_rows_to_train_and_to_stop_by(data: TrainingSet, accounts: int) -> None:
    rows = data.rows["customer"]
    few = rows[rows["split"] == "test"]["account_id"].unique()[:accounts]
    kept = rows[(rows["split"] != "test") | rows["account_id"].isin(few)]
    own = outcome_rows(replace(data, rows={"customer": kept})).rows["customer"]
    assert set(own["split"]) == {"train", "validation"}
    assert set(own["account_id"]) == set(few)
