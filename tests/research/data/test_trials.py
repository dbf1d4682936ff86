"""Small made-up files in the public layouts: nothing of the real data is here."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from research.data import trials
from research.data.trials.layout import LAYOUTS
from shadowprice.errors import InvalidTable, NotFound
from shadowprice.evaluation import metrics
from shadowprice.responses import make
from shadowprice.responses.training import TrainingConfig

ROWS = 400


def file(name: str, rows: int = ROWS, seed: int = 0) -> pd.DataFrame:
    layout = LAYOUTS[name]
    random = np.random.default_rng(seed)
    table = {column: random.normal(size=rows).round(4) for column in layout.numbers}
    table |= {column: random.choice(["Rural", "Urban"], rows) for column in layout.categories}
    arm = random.integers(0, len(layout.arms), rows)
    table[layout.treatment] = np.array(layout.arms)[arm]
    first = table[layout.numbers[0]]
    for k, column in enumerate(c for c in (layout.value, layout.cost) if c):
        chance = 1 / (1 + np.exp(-(first + arm - 1 - k)))
        table[column] = (random.random(rows) < chance).astype(int)
    if name == "criteo":
        table["exposure"] = 0
    if name == "lazada":
        table = {"data_id": np.arange(rows), **table}
    return pd.DataFrame(table)


@pytest.mark.parametrize("name", trials.names())
def test_a_file_in_the_public_layout_becomes_a_frame_that_models_read(name: str, tmp_path: Path) -> None:
    source, layout = file(name), LAYOUTS[name]
    path = tmp_path / next(iter(layout.files))
    source.to_csv(path, index=False)
    found = trials.load(name, tmp_path)
    assert len(found.frame) == ROWS
    assert found.levels == tuple(range(len(layout.arms)))
    assert np.array(layout.arms)[found.frame["level"]].tolist() == source[layout.treatment].astype(str).tolist()
    assert found.frame["response"].tolist() == source[layout.value].tolist()
    assert ("cost" in found.frame) == (layout.cost is not None)
    share = found.frame["level"].value_counts(normalize=True)
    np.testing.assert_allclose(found.frame["propensity"], found.frame["level"].map(share))
    assert found.frame["exploration"].all()
    assert layout.source in found.notes["source"]
    quick = TrainingConfig(epochs=3)
    curves = make("s_learner", levels=found.levels, hidden=4, training=quick).fit(found.frame).curve(found.frame)
    assert np.isfinite(curves.response).all()


def test_the_cost_curve_of_a_model_on_criteos_layout(tmp_path: Path) -> None:
    file("criteo", 3000).to_csv(tmp_path / "mine.csv", index=False)
    frame = trials.load("criteo", tmp_path / "mine.csv").frame
    model = make("t_learner", levels=(0, 1), hidden=8, training=TrainingConfig(epochs=40, learning_rate=1e-2))
    model.fit(frame)
    value, cost = model.curve(frame).response, model.cost(frame)
    score = (value[1] - value[0]) / np.maximum(cost[1] - cost[0], 1e-3)
    assert 0 < metrics.aucc(frame["response"], frame["cost"], score, frame["level"]) < 1.5


def test_lazadas_biased_file_is_observational(tmp_path: Path) -> None:
    file("lazada", 50).to_csv(tmp_path / "full_testset.csv", index=False)
    file("lazada", 80, seed=1).to_csv(tmp_path / "full_trainset.csv", index=False)
    frame = trials.load("lazada", tmp_path).frame
    assert frame["exploration"].value_counts().to_dict() == {False: 80, True: 50}
    assert frame.loc[~frame["exploration"], "propensity"].isna().all()
    assert frame["account_id"].is_unique


def test_a_compressed_file_and_its_extract_are_read_once(tmp_path: Path) -> None:
    for suffix in (".csv.gz", ".csv"):
        file("criteo", 30).to_csv(tmp_path / f"criteo-research-uplift-v2.1{suffix}", index=False)
    assert len(trials.load("criteo", tmp_path).frame) == 30
    assert len(trials.load("criteo", tmp_path, rows=7).frame) == 7


@pytest.mark.parametrize("name", trials.names())
def test_an_absent_file_is_said_to_be_and_where_it_comes_from(name: str, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"get .*csv") as error:
        trials.load(name, tmp_path)
    assert LAYOUTS[name].source in str(error.value)
    assert "http" not in str(error.value)


def test_an_unknown_trial_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="hillstrom"):
        trials.load("starbucks", tmp_path)


@pytest.mark.parametrize(
    ("column", "entry", "message"),
    [
        ("visit", 2, r"criteo.*visit: must be 0 or 1 \(row 3\)"),
        ("treatment", 7, r"treatment: must be one of 0, 1 \(row 3\)"),
        ("f4", "much", r"f4: must be numbers \(row 3\)"),
        ("conversion", "", r"conversion: must be known \(row 3\)"),
    ],
)
def test_what_a_column_cannot_hold_is_refused_with_its_row(column: str, entry, message: str, tmp_path: Path) -> None:
    table = file("criteo", 20).astype(object)
    table.loc[3, column] = entry
    table.to_csv(tmp_path / "criteo.csv", index=False)
    with pytest.raises(InvalidTable, match=message):
        trials.load("criteo", tmp_path / "criteo.csv")


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    file("hillstrom", 20).drop(columns="segment").to_csv(tmp_path / "mail.csv", index=False)
    with pytest.raises(InvalidTable, match="segment: is missing"):
        trials.load("hillstrom", tmp_path / "mail.csv")
