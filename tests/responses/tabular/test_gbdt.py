"""Boosted trees as a response model: against LightGBM itself, and the promises every model makes."""

import lightgbm
import numpy as np
import pandas as pd
import pytest

from shadowprice.errors import InvalidInput
from shadowprice.evaluation import metrics
from shadowprice.responses import make

LEVELS = [100, 300, 900]
OPTIONS = {"trees": 60, "leaf_rows": 20}


def frame(rows: int, seed: int) -> pd.DataFrame:
    """Response rises with the level where x_a is high, falls a little where it is low; c_city shifts it."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "account_id": [f"u{i}" for i in range(rows)],
            "level": rng.integers(0, 3, rows),
            "x_a": rng.normal(size=rows),
            "c_city": rng.choice(["a", "b", "c"], rows),
        }
    )
    table.loc[rng.random(rows) < 0.1, "x_a"] = np.nan
    logit = -1 + table["x_a"].fillna(2) * (0.5 + 0.6 * (table["level"] - 0.3)) + (table["c_city"] == "b") * 1.5
    return table.assign(response=(rng.random(rows) < 1 / (1 + np.exp(-logit))).astype(float))


@pytest.fixture(scope="module")
def model():
    return make("gbdt", levels=LEVELS, **OPTIONS).fit(frame(6000, 0))


def test_it_ranks_like_lightgbm_on_the_same_table(model) -> None:
    train, test = frame(6000, 0), frame(4000, 1)

    def table(rows: pd.DataFrame) -> pd.DataFrame:
        amount = np.array(LEVELS)[rows["level"]]
        return rows[["x_a"]].assign(c_city=pd.Categorical(rows["c_city"], ["a", "b", "c"]), amount=amount)

    peer = lightgbm.train(
        {"objective": "binary", "learning_rate": 0.05, "min_data_in_leaf": 20, "verbose": -1, "num_leaves": 31},
        lightgbm.Dataset(table(train), train["response"]),
        60,
    )
    level, y = test["level"].to_numpy(), test["response"].to_numpy()
    curves = model.curve(test).response
    ours = metrics.auc(y, curves[level, np.arange(len(test))])
    theirs = metrics.auc(y, peer.predict(table(test)))
    assert ours > theirs - 0.01
    assert ours > 0.75


def test_no_curve_falls_unless_it_is_left_free(model) -> None:
    rows = frame(2000, 2)
    assert metrics.rpr(model.curve(rows).response) == 0
    assert model.monotone
    free = make("gbdt", levels=LEVELS, level="free", **OPTIONS).fit(frame(6000, 0))
    assert metrics.rpr(free.curve(rows).response) > 0
    assert not free.monotone
    flat = make("gbdt", levels=LEVELS, level="none", **OPTIONS).fit(frame(6000, 0))
    assert metrics.epr(flat.curve(rows).response) == 1


def test_another_seed_gives_other_trees(model) -> None:
    rows = frame(500, 3)
    other = make("gbdt", levels=LEVELS, seed=1, **OPTIONS).fit(frame(6000, 0))
    assert not np.array_equal(other.curve(rows).response, model.curve(rows).response)


def test_an_unseen_account_a_new_category_and_a_missing_column_have_a_curve(model) -> None:
    rows = pd.DataFrame({"account_id": ["new", "new2"], "x_a": [0.3, np.nan], "c_city": ["a", "nowhere"]})
    assert np.isfinite(model.curve(rows).response).all()
    assert np.isfinite(model.curve(rows[["account_id"]]).response).all()


def test_it_learns_a_merchants_ratio_and_reads_the_partner() -> None:
    rng = np.random.default_rng(0)
    partner = rng.integers(0, 20, 4000)
    rows = pd.DataFrame(
        {
            "account_id": [f"m{i}" for i in range(4000)],
            "partner_id": [f"p{p}" for p in partner],
            "level": rng.integers(0, 2, 4000),
        }
    )
    rows["response"] = 1.0 + partner % 3 + 0.5 * rows["level"] + rng.normal(0, 0.1, 4000)
    fitted = make("gbdt", levels=[0, 100], side="merchant", **OPTIONS, learning_rate=0.2).fit(rows)
    curves = fitted.curve(rows.head(50)).response
    np.testing.assert_allclose(curves[0], 1.0 + partner[:50] % 3, atol=0.15)
    np.testing.assert_allclose(curves[1] - curves[0], 0.5, atol=0.1)


def test_without_features_it_is_the_response_of_each_level() -> None:
    rows = frame(6000, 4)[["account_id", "level", "response"]]
    fitted = make("gbdt", levels=LEVELS, **OPTIONS, learning_rate=0.3).fit(rows)
    found = fitted.curve(rows.head(1)).response[:, 0]
    np.testing.assert_allclose(found, rows.groupby("level")["response"].mean(), atol=0.02)


def test_what_it_cannot_do_is_said() -> None:
    with pytest.raises(InvalidInput, match="level: must be one of"):
        make("gbdt", levels=LEVELS, level="up")
    with pytest.raises(InvalidInput, match="partner_id: is read as a category"):
        make("gbdt", levels=LEVELS, partner=True).fit(frame(100, 0))
