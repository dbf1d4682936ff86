"""Models of each side on its own, as the pipeline trains, stores and serves them."""

import json

import numpy as np
import pandas as pd
import pytest

from shadowprice.errors import InvalidInput, NotFound
from shadowprice.graphs.build import build_snapshot
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.joint.inputs import with_features
from shadowprice.responses.layers.heads import load_heads, save_heads
from shadowprice.responses.separate import SeparateModels
from shadowprice.responses.sided import load_sided
from shadowprice.responses.training import TrainingConfig

LEVELS = {"customer": (20, 50, 100), "merchant": (0, 40)}
ROWS = 1000


def snapshot(days: int = 0, shift: float = 0.0) -> GraphSnapshot:
    random = np.random.default_rng(3)
    nodes = pd.DataFrame(
        {
            "account_id": [f"{side[0]}{i}" for side in LEVELS for i in range(ROWS)],
            "side": [side for side in LEVELS for _ in range(ROWS)],
            "x_trait": random.normal(size=2 * ROWS) + shift,
            "c_city": random.choice(["a", "b"], 2 * ROWS),
        }
    )
    edges = pd.DataFrame({"src": [], "dst": [], "weight": [], "ts": pd.to_datetime([], utc=True)})
    return build_snapshot(nodes, edges, pd.Timestamp("2026-01-01", tz="UTC") + pd.Timedelta(days=days))


def rows(graph: GraphSnapshot, seed: int = 0) -> dict[str, pd.DataFrame]:
    random = np.random.default_rng(seed)
    frames = {}
    for side, levels in LEVELS.items():
        account = [f"{side[0]}{i}" for i in range(ROWS)]
        x = graph.features[side][graph.find(account), 0]
        level = random.integers(0, len(levels), ROWS)
        amount = np.array(levels)[level] / 100
        y = (
            random.random(ROWS) < 1 - np.exp(-np.exp(0.7 * x - 0.3) * amount)
            if side == "customer"
            else 1 + 0.8 * amount + 0.5 * x + 0.2 * random.normal(size=ROWS)
        )
        frames[side] = pd.DataFrame({"account_id": account, "level": level, "response": np.asarray(y, dtype=float)})
    return frames


@pytest.fixture(scope="module")
def graph() -> Inputs:
    return Inputs(snapshots=[snapshot()])


@pytest.fixture(scope="module")
def model(graph) -> SeparateModels:
    made = SeparateModels.prepare(
        {"customer": "dnn", "merchant": "linear"},
        LEVELS,
        training=TrainingConfig(epochs=50, learning_rate=1e-2),
    )
    made.fit(graph, rows(graph.snapshots[0]))
    return made


def test_each_side_has_learned_its_own_curve(model, graph) -> None:
    frames = rows(graph.snapshots[0])
    curves = model.curves(graph, frames)
    x = graph.snapshots[0].features["customer"][graph.snapshots[0].find(frames["customer"]["account_id"]), 0]
    truth = 1 - np.exp(-np.exp(0.7 * x - 0.3) * np.array(LEVELS["customer"])[:, None] / 100)
    assert np.abs(curves["customer"].response - truth).mean() < 0.06
    assert np.diff(curves["merchant"].response.mean(axis=1))[0] == pytest.approx(0.32, abs=0.1)


def test_what_is_stored_and_served_is_the_curve_of_the_model(model, graph, tmp_path) -> None:
    frames = rows(graph.snapshots[0])
    own = model.models["customer"].curve(with_features(frames["customer"], graph.snapshots, "customer"))
    embeddings = model.embed(graph, frames)
    save_heads(model.heads(embeddings), tmp_path)
    served = load_heads(tmp_path)["customer"]
    np.testing.assert_allclose(served.response(embeddings["customer"]), own.response, atol=2e-6)
    unknown = served.response(served.default_embedding[None])[:, 0]
    np.testing.assert_allclose(unknown, own.response.mean(axis=1), atol=1e-5)


def test_saved_and_loaded_it_gives_the_same_curves(model, graph, tmp_path) -> None:
    frames = rows(graph.snapshots[0])
    model.correct("merchant", 0.25)
    before = model.curves(graph, frames)
    model.save(tmp_path)
    after = load_sided(tmp_path).curves(graph, frames)
    model.correct("merchant", -0.25)
    for side in LEVELS:
        np.testing.assert_array_equal(after[side].response, before[side].response)
    with pytest.raises(NotFound, match="train"):
        SeparateModels.load(tmp_path / "customer")


def test_calibration_finds_a_planted_error(model, graph) -> None:
    held_out = rows(graph.snapshots[0], seed=5)
    model.calibrate(graph, held_out)
    right = dict(model.corrections)
    model.correct("customer", -1.0)
    model.correct("merchant", 2.0)
    found = model.calibrate(graph, held_out)
    assert found["customer"] == pytest.approx(1.0, abs=0.12)
    assert found["merchant"] == pytest.approx(-2.0, abs=0.05)
    assert model.corrections["customer"] == pytest.approx(right["customer"], abs=0.12)


def test_calibration_counts_a_row_of_weight_two_twice(model, graph) -> None:
    model.correct("customer", -1.0)
    model.correct("merchant", 2.0)
    held_out = rows(graph.snapshots[0], seed=6)
    before = dict(model.corrections)
    weight = {side: 1.0 + (np.arange(len(frame)) % 2) for side, frame in held_out.items()}
    found = model.calibrate(graph, {side: frame.assign(weight=weight[side]) for side, frame in held_out.items()})
    model.corrections = before
    twice = {side: pd.concat([frame, frame[weight[side] == 2]], ignore_index=True) for side, frame in held_out.items()}
    assert found == pytest.approx(model.calibrate(graph, twice), abs=1e-5)
    assert min(map(abs, found.values())) > 0.5


def test_a_row_gets_the_features_its_account_had_at_the_time() -> None:
    both = [snapshot(0), snapshot(10, shift=100.0)]
    frame = pd.DataFrame(
        {
            "account_id": ["c1", "c1"],
            "snapshot_at": [both[0].at.timestamp() + 5, both[1].at.timestamp()],
            "request_id": ["r1", "r2"],
            "level": 0,
            "response": 1.0,
        }
    )
    found = with_features(frame, both, "customer")
    assert found["x_trait"].diff()[1] == pytest.approx(100.0, abs=1e-3)
    assert set(found) == {"account_id", "snapshot_at", "level", "response", "x_trait", "x_c_city=a", "x_c_city=b"}
    with pytest.raises(InvalidInput, match=r"profile.*rows: 1"):
        with_features(frame.assign(account_id=["c1", "nobody"]), both, "customer")


def test_more_levels_than_are_stored_are_refused() -> None:
    with pytest.raises(InvalidInput, match="64 levels"):
        SeparateModels.prepare({"customer": "dnn"}, {"customer": list(range(65))})


def test_what_is_written_holds_no_pickle(model, tmp_path) -> None:
    model.save(tmp_path)
    names = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
    assert names == ["response.safetensors", "response.safetensors", "separate.json"]
    assert json.loads((tmp_path / "separate.json").read_text()) == {"corrections": model.corrections}
