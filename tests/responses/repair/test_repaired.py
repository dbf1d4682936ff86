"""A repaired model of all sides: what is trained, stored and served is the repaired curve."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from shadowprice.errors import InvalidInput
from shadowprice.evaluation import metrics
from shadowprice.graphs.build import build_snapshot
from shadowprice.learning.calibrate import calibrate, uncalibrated
from shadowprice.learning.evaluate import evaluate
from shadowprice.learning.fit import fit_bundle, repair
from shadowprice.learning.recipes import Training
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.base import labels
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.joint.inputs import with_features
from shadowprice.responses.layers.heads import load_heads
from shadowprice.responses.posterior import CurvePosterior
from shadowprice.responses.repair.model import RepairedModel, RepairSteps
from shadowprice.responses.separate import SeparateModels
from shadowprice.responses.sided import load_sided
from shadowprice.responses.training import TrainingConfig
from shadowprice.responses.weights import row_weights

LEVELS = (100, 500, 1000)
EFFECT = np.array([0.0, 1.0, 1.5])
SIZE = 6000


@pytest.fixture(scope="module")
def data() -> TrainingSet:
    """Merchants who give more have customers who respond less, so the raw response falls with the level."""
    rng = np.random.default_rng(0)
    shop = rng.integers(0, 40, SIZE)
    center = np.linspace(0, 2, 40)[shop]
    weight = np.exp(-1.5 * np.abs(np.arange(3)[:, None] - center))
    level = (rng.uniform(size=SIZE) > np.cumsum(weight / weight.sum(axis=0), axis=0)).sum(axis=0)
    x = rng.normal(size=SIZE)
    logit = np.linspace(1.0, -3.0, 40)[shop] + 0.5 * x + EFFECT[level]
    users, shops = [f"u{i}" for i in range(SIZE)], [f"s{k}" for k in range(40)]
    nodes = pd.DataFrame(
        {
            "account_id": users + shops,
            "side": ["customer"] * SIZE + ["merchant"] * 40,
            "x_trait": np.r_[x, np.linspace(-1, 1, 40)],
        }
    )
    edges = pd.DataFrame({"src": [], "dst": [], "weight": [], "ts": pd.to_datetime([], utc=True)})
    snapshot = build_snapshot(nodes, edges, pd.Timestamp("2026-01-01", tz="UTC"))
    rows = pd.DataFrame(
        {
            "request_id": users,
            "account_id": users,
            "partner_id": [shops[k] for k in shop],
            "level": level,
            "response": (rng.uniform(size=SIZE) < 1 / (1 + np.exp(-logit))).astype(float),
            "split": np.repeat(["train", "validation", "test"], SIZE // 3),
            "snapshot_at": snapshot.at.timestamp() + 60.0,
        }
    )
    serving = rows[["account_id", "partner_id"]].head(500)
    return TrainingSet(
        {"customer": rows},
        {"customer": serving},
        Inputs(snapshots=[snapshot]),
        {"customer": LEVELS},
        {"customer": ()},
        {"customer": ("partner_id",)},
    )


@pytest.fixture(scope="module")
def trained(data) -> SeparateModels:
    model = SeparateModels.prepare({"customer": "gbdt"}, {"customer": LEVELS})
    model.fit(data.inputs, data.part("train"))
    return model


def test_the_partners_features_come_with_the_request(data) -> None:
    frame = data.rows["customer"].head(3).assign(partner_id=["s0", "s39", None])
    found = with_features(frame, data.snapshots, "customer")["x_partner_trait"].to_numpy()
    np.testing.assert_allclose(found, [-1, 1, np.nan])


def test_the_effect_step_finds_the_slope_that_trees_did_not_learn(data) -> None:
    test = data.part("test")
    trained = SeparateModels.prepare({"customer": "gbdt"}, {"customer": LEVELS}, level="none")
    trained.fit(data.inputs, data.part("train"))
    raw = data.rows["customer"].groupby("level")["response"].mean()
    assert raw[2] < raw[0]
    before = trained.curves(data.inputs, test)["customer"].response
    model = repair(trained, data, "effect+monotone")
    after = model.curves(data.inputs, test)["customer"].response

    def height(response: np.ndarray) -> float:
        clipped = np.clip(response.astype(float), 1e-6, 1 - 1e-6)
        return float((np.log(clipped / (1 - clipped))[-1] - np.log(clipped / (1 - clipped))[0]).mean())

    assert height(after) == pytest.approx(EFFECT[-1], abs=0.35)
    assert height(before) == 0
    level, y = test["customer"]["level"].to_numpy(), test["customer"]["response"].to_numpy()
    ranks = [metrics.auc(y, each[level, np.arange(y.size)]) for each in (before, after)]
    assert ranks[1] > ranks[0] - 0.005
    assert metrics.rpr(after) == 0


@pytest.mark.parametrize("name", ["monotone", "pooled+monotone", "effect+by_level+monotone"])
def test_what_is_saved_stored_and_served_is_the_repaired_curve(data, tmp_path, name) -> None:
    data.save(tmp_path / "data")
    config = TrainingConfig(epochs=5)
    version, _ = fit_bundle(tmp_path / "data", tmp_path / "model", Training("gbdt", name), config, workers=0)
    model = load_sided(tmp_path / "model")
    assert isinstance(model, RepairedModel)
    wanted = model.curves(data.inputs, data.serving)["customer"].response
    head = load_heads(tmp_path / "model")["customer"]
    stored = pd.read_parquet(tmp_path / "model" / "embeddings.parquet")
    np.testing.assert_array_equal(head.response(np.stack(stored["embedding"])), wanted)
    meta = json.loads((tmp_path / "model" / "model.json").read_text())
    assert meta["sides"]["customer"]["repair"]["monotone"]
    assert meta["model_version"] == version
    # The law of the errors of the curves is that of the validation rows, on the curves that are served.
    law, rows = meta["posterior"]["customer"], data.part("validation")
    curves, (level, y) = model.curves(data.inputs, rows)["customer"], labels(rows["customer"])
    weight = row_weights(rows["customer"], len(data.levels["customer"]))
    found = CurvePosterior.fit(curves, level, y, rows["customer"]["account_id"], weight)
    np.testing.assert_allclose(law["mean"], found.mean, atol=1e-6)
    assert np.diag(law["covariance"]).min() > 0
    inner = model.unrepaired().curves(data.inputs, data.serving)["customer"]
    again = model.repairs["customer"].apply(inner, data.serving["customer"])
    np.testing.assert_array_equal(again.response, wanted)


def test_an_evaluation_shows_the_model_before_calibration_and_repair(data, trained) -> None:
    corrections = calibrate(trained, data)
    model = repair(trained, data, "effect+monotone")
    found = evaluate(model, data, corrections=corrections, replications=10)
    assert found.sides["customer"].uncorrected is not None
    before = uncalibrated(model, corrections)
    assert before is not trained
    rows = data.part("test")
    raw = before.curves(data.inputs, rows)["customer"].response
    corrected = trained.curves(data.inputs, rows)["customer"].response
    assert np.allclose(raw, corrected) == (corrections["customer"] == 0)
    for call in (lambda: calibrate(model, data), lambda: model.correct("customer", 0.1)):
        with pytest.raises(InvalidInput, match="before its curves are repaired"):
            call()


def test_none_is_the_model_itself_and_bad_names_are_refused_first(data, trained, tmp_path) -> None:
    assert repair(trained, data, "none") is trained
    for name in ("magic", "pooled+by_level", "effect+effect", ""):
        with pytest.raises(InvalidInput, match=r"^repair"):
            RepairSteps.named(name)
    with pytest.raises(InvalidInput, match=r"^repair"):
        fit_bundle(tmp_path / "nowhere", tmp_path, Training("gbdt", "magic"), TrainingConfig(), workers=0)


def test_confounders_survive_saving_and_must_be_columns(data, trained, tmp_path) -> None:
    data.save(tmp_path)
    assert TrainingSet.load(tmp_path).confounders == {"customer": ("partner_id",)}
    with pytest.raises(InvalidInput, match="x_nothing"):
        repair(trained, replace(data, confounders={"customer": ("x_nothing",)}), "effect")
