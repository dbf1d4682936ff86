from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from shadowprice.errors import InvalidInput, NotFound
from shadowprice.graphs.build import snapshot_times
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.learning import training_set
from shadowprice.learning.bundle import read_meta
from shadowprice.learning.calibrate import calibrate, uncalibrated
from shadowprice.learning.fit import fit_bundle
from shadowprice.learning.labeling import inputs_of
from shadowprice.learning.recipes import SUBJECTS, Training, recipe
from shadowprice.learning.train import train
from shadowprice.learning.training_set import TrainingSet, labeled
from shadowprice.responses.inputs import SUBJECTS as INPUTS
from shadowprice.responses.joint.model import JointModel
from shadowprice.responses.layers.heads import load_heads
from shadowprice.responses.registry import MODELS, Entry
from shadowprice.responses.training import TrainingConfig
from shadowprice.tables import Tables, campaign_from_tables

TINY = {"customers": 300, "merchants": 80, "both": 10, "trials": 3}
QUICK = TrainingConfig(epochs=12, save_seconds=0)


@pytest.fixture(scope="module")
def data(make_set) -> TrainingSet:
    return make_set("world", 0, **TINY)[1]


@pytest.mark.parametrize("read", [(), ("behaviours",), ("behaviours", "offers")])
def test_an_input_is_made_where_a_model_of_such_rows_is_registered_to_read_it(
    make_set, read: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that only models of deliveries read by now: the kind of data set decides nothing."""
    tables = make_set("world", 0, **TINY)[0].tables
    monkeypatch.setitem(MODELS, "newcomer", Entry("tabular.newcomer", "NewcomerModel", read))
    given = inputs_of(tables, campaign_from_tables(tables), [])
    assert given.there == set(read) - {"offers"}  # no offer of this campaign has a feature


def test_each_subject_of_rows_says_how_its_models_are_trained() -> None:
    assert set(SUBJECTS) == {"", *INPUTS}


def quiet(row: dict[str, float]) -> None:
    del row


def test_saved_and_loaded_it_is_the_same(data: TrainingSet, tmp_path) -> None:
    data.save(tmp_path)
    again = TrainingSet.load(tmp_path)
    for side, rows in data.rows.items():
        known = rows.drop(columns="request_id").dropna(axis=1, how="all")
        pd.testing.assert_frame_equal(again.rows[side][known.columns], known, check_dtype=False)
    np.testing.assert_array_equal(again.snapshots[0].edge_index, data.snapshots[0].edge_index)
    assert again.levels == data.levels


def test_a_training_set_that_was_written_in_part_over_another_is_none(
    data: TrainingSet, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data.save(tmp_path)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(GraphSnapshot, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        data.save(tmp_path)
    with pytest.raises(NotFound, match="no training set"):
        TrainingSet.load(tmp_path)


def test_no_account_is_in_two_splits(data: TrainingSet) -> None:
    for rows in data.rows.values():
        assert (rows.groupby("account_id")["split"].nunique() == 1).all()


def test_training_never_sees_a_snapshot_later_than_its_rows(data: TrainingSet) -> None:
    first = data.snapshots[0]
    later = replace(first, at=first.at + timedelta(days=365))
    both = data.seeing([first, later])
    assert both.seen_by("train", "validation").snapshots == [first]
    rows = {side: rows.assign(snapshot_at=later.at.timestamp() + 1) for side, rows in data.rows.items()}
    assert replace(both, rows=rows).seen_by("train").snapshots == [first, later]


def test_a_folder_without_a_training_set_is_refused(tmp_path) -> None:
    with pytest.raises(NotFound, match="featurize"):
        TrainingSet.load(tmp_path)


def test_an_unknown_recipe_or_split_is_refused_with_the_names_there_are(data: TrainingSet) -> None:
    with pytest.raises(NotFound, match="joint_gnn"):
        recipe("nothing", data)
    with pytest.raises(InvalidInput, match="validation"):
        data.part("holdout")


def test_snapshot_times_are_thinned_with_both_ends_kept() -> None:
    times = pd.Series(pd.date_range("2026-01-01", periods=30, tz="UTC"))
    accounts = pd.DataFrame({"account_id": [f"a{k}" for k in range(30)], "side": "customer", "snapshot_ts": times})
    thinned = snapshot_times(Tables({"account": accounts}), most=4)
    assert len(thinned) == 4
    assert (thinned[0], thinned[-1]) == (times.iloc[0].to_pydatetime(), times.iloc[-1].to_pydatetime())


def test_the_same_seed_gives_the_same_model_and_bundle_version(data: TrainingSet, tmp_path) -> None:
    data.save(tmp_path / "data")
    versions = {
        fit_bundle(tmp_path / "data", tmp_path / out, Training("joint_gnn"), QUICK, workers=0)[0] for out in "ab"
    }
    other, _ = fit_bundle(
        tmp_path / "data", tmp_path / "c", Training("joint_gnn"), TrainingConfig(epochs=12, seed=1), workers=0
    )
    assert len(versions) == 1
    assert other not in versions


def test_an_interrupted_training_resumes_to_the_same_model(data: TrainingSet, tmp_path) -> None:
    class Stop(Exception):
        pass

    def interrupt(row: dict[str, float]) -> None:
        if row["epoch"] == 9:
            raise Stop

    with pytest.raises(Stop):
        train(data, "joint_gnn", QUICK, checkpoint=tmp_path, report=interrupt)
    seen: list[float] = []
    resumed, result = train(data, "joint_gnn", QUICK, checkpoint=tmp_path, report=lambda row: seen.append(row["epoch"]))
    whole, expected = train(data, "joint_gnn", QUICK, report=quiet)
    assert seen[0] == 9, "it must go on after the last checkpoint, not start again"
    losses = [[row["validation_loss"] for row in found.history] for found in (result, expected)]
    assert losses[0] == pytest.approx(losses[1])
    for (name, one), two in zip(resumed.network.state_dict().items(), whole.network.state_dict().values(), strict=True):
        np.testing.assert_allclose(one.numpy(), two.numpy(), atol=1e-6, err_msg=name)


def test_a_checkpoint_of_another_configuration_is_not_resumed(data: TrainingSet, tmp_path) -> None:
    train(data, "joint_dnn", QUICK, checkpoint=tmp_path, report=quiet)
    seen: list[float] = []
    other = TrainingConfig(epochs=3, learning_rate=1e-3)
    train(data, "joint_dnn", other, checkpoint=tmp_path, report=lambda row: seen.append(row["epoch"]))
    assert seen == [0, 1, 2]


def test_a_checkpoint_of_other_amounts_is_not_resumed(data: TrainingSet) -> None:
    other = {side: tuple(2 * level for level in levels) for side, levels in data.levels.items()}
    assert replace(data, levels=other).digest() != data.digest()
    assert replace(data, levels=dict(data.levels)).digest() == data.digest()


def test_the_bundle_serves_the_curves_of_the_network(data: TrainingSet, tmp_path) -> None:
    data.save(tmp_path / "data")
    version, _ = fit_bundle(tmp_path / "data", tmp_path / "model", Training("joint_gnn"), QUICK, workers=0)
    assert read_meta(tmp_path / "model")["model_version"] == version
    heads, model = load_heads(tmp_path / "model"), JointModel.load(tmp_path / "model")
    expected = model.curves(data.inputs, data.serving)
    stored = pd.read_parquet(tmp_path / "model" / "embeddings.parquet")
    for side, head in heads.items():
        own = stored[stored["side"] == side]
        assert own["account_id"].tolist() == data.serving[side]["account_id"].tolist()
        np.testing.assert_array_equal(head.response(np.stack(own["embedding"])), expected[side].response)


def test_calibration_finds_a_planted_error_and_can_be_taken_off_again(data: TrainingSet) -> None:
    model, _ = train(data, "joint_dnn", TrainingConfig(epochs=3), report=quiet)
    calibrate(model, data)
    right = model.curves(data.inputs, data.serving)["merchant"].response
    model.network.layer("merchant").correct(1.0)
    found = calibrate(model, data)
    assert found["merchant"] == pytest.approx(-1.0, abs=0.2)
    np.testing.assert_allclose(model.curves(data.inputs, data.serving)["merchant"].response, right, atol=0.2)
    before = uncalibrated(model, found).curves(data.inputs, data.serving)["merchant"].response
    np.testing.assert_allclose(before, right + 1.0, atol=0.2)


def test_a_part_of_the_accounts_has_all_their_rows_on_both_sides(
    data: TrainingSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_set, "BATCH", 100)
    rows = data.rows["customer"].drop(columns="request_id").dropna(axis=1, how="all")
    # The merchants of this copy are the customers again, as rows and as accounts to serve.
    copy = {"customer": rows, "merchant": rows}
    replace(data, rows=copy, serving=dict.fromkeys(copy, data.serving["customer"])).save(tmp_path)
    served = len(data.serving["customer"])
    part = TrainingSet.load(tmp_path, served // 2)
    taken = set(part.rows["customer"]["account_id"])
    labeled_accounts = rows["account_id"].nunique()
    assert len(taken) == pytest.approx(labeled_accounts / 2, abs=3 * labeled_accounts**0.5)
    kept = rows[rows["account_id"].isin(taken)].reset_index(drop=True)
    for side in copy:
        pd.testing.assert_frame_equal(part.rows[side], kept, check_dtype=False)
        assert len(part.serving[side]) == served
    assert labeled(tmp_path) == {side: len(rows) for side in copy}
    whole = TrainingSet.load(tmp_path, served)
    assert len(whole.rows["customer"]) == len(rows)
