"""Every name can be trained by the pipeline's step and is served without the packages that trained it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.isotonic import IsotonicRegression

from shadowprice.errors import InvalidInput, NotFound
from shadowprice.learning.bundle import EMBEDDINGS, read_meta
from shadowprice.learning.evaluate import evaluate
from shadowprice.learning.fit import fit_bundle, fit_model
from shadowprice.learning.recipes import PARTS, Separate, Training, recipe, recipe_names
from shadowprice.learning.training_set import TrainingSet
from shadowprice.learning.worth.bundle import worth_of_bundle
from shadowprice.responses.joint.model import JointSpec
from shadowprice.responses.layers.heads import LAYERS, load_heads
from shadowprice.responses.registry import names
from shadowprice.responses.sided import load_sided
from shadowprice.responses.training import TrainingConfig

TINY = {"customers": 250, "merchants": 80, "both": 10, "trials": 3}


@pytest.fixture(scope="module")
def folder(make_set, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("training")
    make_set("world", 0, **TINY)[1].save(path)
    return path


@pytest.fixture(scope="module")
def data(folder: Path) -> TrainingSet:
    return TrainingSet.load(folder)


def test_every_registered_name_is_a_recipe(data: TrainingSet) -> None:
    joint = {f"joint_{name}" for name in ("gnn", "dnn", "dnn_h", "gat2", "sage", "graphconv", *LAYERS)}
    assert joint | {*names("")} - PARTS <= set(recipe_names())
    for name in recipe_names():
        found = recipe(name, data)
        assert isinstance(found, JointSpec | Separate)
        sides = found.layers if isinstance(found, JointSpec) else found.models
        assert set(sides) == {"customer", "merchant"}, name
    assert recipe("joint_sage", data).encoder == "sage"
    assert recipe("joint_cox", data).layers == {"customer": "cox", "merchant": "linear"}
    with pytest.raises(NotFound, match="joint_gnn"):
        recipe("joint_nothing", data)


@pytest.mark.parametrize("name", sorted(PARTS))
def test_a_part_of_a_joint_network_gives_the_recipe(data: TrainingSet, name: str) -> None:
    assert name not in recipe_names()
    for use in (lambda: recipe(name, data), Training(name).check):
        with pytest.raises(InvalidInput, match=f"recipe: .* called 'joint_{name}'"):
            use()


@pytest.mark.parametrize(("name", "pipeline"), [("dmbgn", "vouchers"), ("esdpm", "delivery")])
def test_a_model_of_other_tables_is_sent_to_its_pipeline(data: TrainingSet, name: str, pipeline: str) -> None:
    assert name not in recipe_names()
    with pytest.raises(InvalidInput, match=f"pipelines run {pipeline}"):
        recipe(name, data)


def test_a_model_of_customers_alone_leaves_merchants_to_the_line_of_s0(data: TrainingSet) -> None:
    assert recipe("isotonic_lr", data).models == {"customer": "isotonic_lr", "merchant": "linear"}
    assert recipe("gbdt", data).models == {"customer": "gbdt", "merchant": "gbdt"}


@pytest.mark.parametrize("name", recipe_names())
def test_it_is_trained_exported_and_served_as_it_predicts(folder: Path, data: TrainingSet, name: str, tmp_path) -> None:
    version, _ = fit_bundle(folder, tmp_path, Training(name), TrainingConfig(epochs=3), workers=0)
    meta = read_meta(tmp_path)
    assert (meta["model_version"], meta["recipe"]) == (version, name)
    stored, heads = pd.read_parquet(tmp_path / EMBEDDINGS), load_heads(tmp_path)
    expected = load_sided(tmp_path).curves(data.inputs, data.serving)
    for side, head in heads.items():
        own = stored[stored["side"] == side]
        assert own["account_id"].tolist() == data.serving[side]["account_id"].tolist()
        assert meta["sides"][side]["levels"] == head.levels.tolist() == list(data.levels[side])
        served = head.response(np.stack(own["embedding"]))
        np.testing.assert_allclose(served, expected[side].response, atol=1e-6)
        assert np.isfinite(head.response(head.default_embedding[None])).all()
    assert not list(tmp_path.rglob("*.pkl")), "no pickle"


def test_training_of_separate_models_shows_its_epochs_and_the_time_left(folder, monkeypatch, capfd, tmp_path) -> None:
    monkeypatch.setattr("shadowprice.progress.EVERY", 0.01)
    fit_bundle(folder, tmp_path, Training("dipn"), TrainingConfig(epochs=10), workers=0)
    lines = capfd.readouterr().err.splitlines()
    assert any(
        re.match(r"train dipn.*: \d+ of 10 epochs, .* so far, about .* left \(validation 0\.", each) for each in lines
    )


def test_what_trees_learned_is_served_without_trees_or_torch(folder: Path, data: TrainingSet, tmp_path) -> None:
    fit_bundle(folder, tmp_path, Training("gbdt"), TrainingConfig(epochs=1), workers=0)
    code = f"""
import json, sys, pathlib, pyarrow.parquet, numpy
from shadowprice.responses.layers.heads import load_heads
table = pyarrow.parquet.read_table({str(tmp_path / EMBEDDINGS)!r}).to_pylist()
own = numpy.array([row["embedding"] for row in table if row["side"] == "customer"], dtype=numpy.float32)
response = load_heads(pathlib.Path({str(tmp_path)!r}))["customer"].response(own[:5])
print(json.dumps([response.tolist(), sorted({{"torch", "lightgbm", "sklearn"}} & set(sys.modules))]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    response, loaded = json.loads(done.stdout)
    expected = load_sided(tmp_path).curves(data.inputs, {"customer": data.serving["customer"].head(5)})
    assert loaded == []
    np.testing.assert_allclose(response, expected["customer"].response, atol=1e-6)


def test_the_policy_of_a_campaign_decides_its_recipe() -> None:
    asked = Training("", "", "")
    assert asked.of_policy("personal") == asked
    assert asked.of_policy("flat").recipe == Training("flat", "", "").of_policy("flat").recipe == "flat"
    with pytest.raises(InvalidInput, match="recipe: leave 'joint_gnn' out: the policy of the campaign is flat"):
        Training("joint_gnn").of_policy("flat")
    for more in ({"curve_repair": "effect"}, {"calibration": "rolling"}):
        with pytest.raises(InvalidInput, match="nothing to do for the flat policy"):
            Training("flat", **more).check()


def test_the_served_flat_policy_learns_from_every_row_and_a_judged_one_from_none_that_judge(
    folder: Path, data: TrainingSet, tmp_path: Path
) -> None:
    model, _, corrections = fit_model(data, Training("flat"), TrainingConfig())
    assert not model.personal
    assert corrections == {"customer": 0.0, "merchant": 0.0}
    fit_bundle(folder, tmp_path, Training("flat"), TrainingConfig(), workers=0)
    for found, splits in ((model, ["train", "validation"]), (load_sided(tmp_path), ["train", "validation", "test"])):
        for side, each in found.curves(data.inputs, data.serving).items():
            assert (each.response == each.response[:, :1]).all(), side
            rows = data.rows[side][data.rows[side]["split"].isin(splits)]
            means = rows.groupby("level")["response"].mean()
            rises = np.ptp(each.response[:, 0]) > 0
            count = rows["level"].value_counts().sort_index()
            isotonic = IsotonicRegression().fit(np.arange(means.size), means, count).predict(np.arange(means.size))
            right = isotonic if rises else np.full(means.size, means[0])
            np.testing.assert_allclose(each.response[:, 0], right, rtol=1e-5)
    judged = evaluate(model, data, replications=50)
    assert judged.value is None
    assert {each.side for each in judged.gate.checks} == {"customer", "merchant"}
    assert not any("AUC" in each.rule for each in judged.gate.checks)


def test_what_personalizing_is_worth_is_not_asked_of_a_flat_policy(folder: Path, tmp_path: Path) -> None:
    fit_bundle(folder, tmp_path, Training("flat"), TrainingConfig(), workers=0)
    found = worth_of_bundle(tmp_path, folder, tmp_path, tmp_path / "worth.json", Training("flat"), TrainingConfig())
    assert found.worth is None
    assert "the policy is flat" in found.absent.lower()
