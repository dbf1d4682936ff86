import numpy as np
import pandas as pd
import pytest

from shadowprice.errors import InvalidInput
from shadowprice.learning.propensity import fit_multinomial, fit_propensity
from shadowprice.responses import make
from shadowprice.responses.training import TrainingConfig
from shadowprice.responses.weights import inverse_propensity

LEVELS = [0, 50, 100]


def drawn(rows: int = 12_000, seed: int = 0, strength: float = 1.2, kinds: int = 2) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows whose level depends on two features and whose response depends on those and the level."""
    random = np.random.default_rng(seed)
    x, kind = random.normal(size=rows), random.integers(0, kinds, rows)
    score = strength * np.outer(x + (kind == 1), [-1, 0, 1])
    chance = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
    level = (random.random(rows)[:, None] > chance.cumsum(axis=1)).sum(axis=1)
    truth = 1 / (1 + np.exp(-(np.array([-1.5, 0.0, 0.6])[:, None] - 1.2 * (x + (kind == 1)))))
    own = np.arange(rows)
    frame = pd.DataFrame(
        {
            "account_id": [f"a{row // 2}" for row in own],
            "level": level,
            "response": (random.random(rows) < truth[level, own]).astype(float),
            "x_trait": x,
            "c_kind": np.array(["u", "v", "w"])[kind],
        }
    )
    return frame.assign(true_propensity=chance[own, level]), truth


def test_the_multinomial_fit_is_that_of_statsmodels() -> None:
    from statsmodels.api import MNLogit, add_constant

    frame, _ = drawn(2000)
    x = np.column_stack([frame["x_trait"], frame["c_kind"] == "v"]).astype(float)
    level = frame["level"].to_numpy()
    ours = fit_multinomial(x, level, l2=0.0).predict_proba(x)
    theirs = MNLogit(level, add_constant(x)).fit(disp=0, method="newton").predict(add_constant(x))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_fitted_propensities_are_the_true_ones() -> None:
    frame, _ = drawn()
    found = fit_propensity(frame.drop(columns="true_propensity"))
    assert np.abs(found - frame["true_propensity"]).mean() < 0.01


def test_a_level_that_every_row_has_is_certain() -> None:
    frame, _ = drawn(50)
    assert (fit_propensity(frame.assign(level=1)) == 1.0).all()


def test_no_row_is_scored_by_a_model_that_saw_its_account() -> None:
    """An account with a level that its features make impossible: a model that saw it would know better."""
    frame, _ = drawn(600)
    frame = frame.drop(columns="true_propensity").assign(x_noise=np.random.default_rng(3).normal(size=600))
    before = fit_propensity(frame)
    moved = frame.copy()
    moved.loc[moved["account_id"] == "a7", "level"] = (moved.loc[moved["account_id"] == "a7", "level"] + 1) % 3
    after = fit_propensity(moved)
    fold = np.random.default_rng(0).permutation(300) % 5
    accounts = pd.factorize(frame["account_id"], sort=True)[0]
    own = fold[accounts] == fold[accounts[14]]
    rest = own & (frame["account_id"] != "a7").to_numpy()
    np.testing.assert_array_equal(before[rest], after[rest])
    assert not np.allclose(before[~own], after[~own])


QUICK = {
    "isotonic_lr": {},
    "dipn": {"training": TrainingConfig(learning_rate=4e-2, epochs=30, patience=10, batch_rows=4096)},
    "hazard": {"training": TrainingConfig(learning_rate=3e-2, epochs=40, patience=15, batch_rows=4096)},
    "gbdt": {},
}


@pytest.mark.parametrize(
    ("name", "source"),
    [("isotonic_lr", "known"), ("isotonic_lr", "fitted"), ("dipn", "fitted"), ("hazard", "known"), ("gbdt", "known")],
)
def test_a_fit_on_biased_data_weighted_by_propensities_recovers_the_randomized_fit(name: str, source: str) -> None:
    """The features that explain both level and response are withheld from the model, so only weights can help."""
    options = QUICK[name]
    frame, truth = drawn(20_000)
    visible = frame[["account_id", "level", "response"]]
    chance = frame["true_propensity"] if source == "known" else fit_propensity(frame.drop(columns="true_propensity"))
    flat = make(name, levels=LEVELS, **options).fit(visible)
    weighted = make(name, levels=LEVELS, **options).fit(visible.assign(propensity=chance))
    one = frame.head(1)
    population = truth.mean(axis=1)
    off = np.abs(flat.curve(one).response[:, 0] - population)
    found = np.abs(weighted.curve(one).response[:, 0] - population)
    assert off.max() > 0.1
    assert found.max() < 0.035
    assert inverse_propensity(frame["level"], chance, 3).effective_rows < 20_000


def test_folds_that_cannot_be_are_refused() -> None:
    frame, _ = drawn(200)
    with pytest.raises(InvalidInput, match="folds"):
        fit_propensity(frame.drop(columns="true_propensity"), folds=1)
    rare = frame.drop(columns="true_propensity").assign(level=[2] * 2 + [0, 1] * 99)
    with pytest.raises(InvalidInput, match="level 2 occurs for too few"):
        fit_propensity(rare)


def test_without_features_a_propensity_is_the_share_of_the_level_among_other_accounts() -> None:
    level = np.repeat([0, 1, 2], [60, 30, 10])
    frame = pd.DataFrame({"account_id": [f"a{k}" for k in range(100)], "level": level})
    np.testing.assert_allclose(fit_propensity(frame), np.array([0.6, 0.3, 0.1])[level], atol=0.06)
    np.testing.assert_allclose(fit_propensity(frame.assign(x_age=np.nan)), fit_propensity(frame))
