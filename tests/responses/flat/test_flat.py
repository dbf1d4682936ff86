"""The flat policy's curve: level means of a trial, kept to the effects that its rows show."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.isotonic import IsotonicRegression
from statsmodels.stats.multitest import multipletests

from benchmarks.trials import draw
from shadowprice.responses import make

LEVELS = (0, 33_200, 66_500, 99_700)


def bonus(seed: int, accounts: int, effect: float) -> pd.DataFrame:
    trial = draw("bonus", seed=seed, accounts=accounts, effect=effect)
    names = trial.people["person_id"]
    return pd.DataFrame({"account_id": names, "level": trial.level, "response": trial.response.astype(float)})


def curve(frame: pd.DataFrame, levels: tuple[int, ...] = LEVELS) -> np.ndarray:
    """The curve that every account has."""
    found = make("flat", levels=levels).fit(frame).curve(pd.DataFrame({"account_id": ["a", "b"]})).response
    np.testing.assert_array_equal(found[:, 0], found[:, 1])
    return found[:, 0].astype(float)


@pytest.mark.parametrize("seed", range(5))
def test_where_a_trial_shows_a_rise_the_curve_is_the_isotonic_regression_of_the_level_means(seed: int) -> None:
    frame = bonus(seed, 1200, 4)
    means, rows = frame.groupby("level")["response"].mean(), frame["level"].value_counts().sort_index()
    right = IsotonicRegression().fit(np.arange(4), means, rows).predict(np.arange(4))
    np.testing.assert_allclose(curve(frame), right, atol=1e-7)


def test_without_an_effect_all_levels_have_the_mean_of_the_lowest_in_nine_of_ten_trials_at_least() -> None:
    flat = 0
    for seed in range(200):
        frame = bonus(seed, 1000, 0)
        found = curve(frame)
        if np.ptp(found) == 0:
            flat += 1
            assert found[0] == pytest.approx(frame.loc[frame["level"] == 0, "response"].mean(), abs=1e-7)
    assert flat >= 180


def test_an_effect_of_the_wrong_way_does_not_count() -> None:
    frame = bonus(0, 2000, 6)
    frame["level"] = 3 - frame["level"]
    assert np.ptp(curve(frame)) == 0


def test_rows_of_one_account_count_once() -> None:
    frame = next(each for each in (bonus(seed, 400, 1) for seed in range(50)) if np.ptp(curve(each)) == 0)
    assert np.ptp(curve(pd.concat([frame] * 9, ignore_index=True))) == 0
    apart = [frame.assign(account_id=frame["account_id"] + f"-{copy}") for copy in range(9)]
    assert np.ptp(curve(pd.concat(apart, ignore_index=True))) > 0


def test_rows_are_weighted_by_their_inverse_propensity() -> None:
    rng = np.random.default_rng(0)
    old = rng.random(20_000) < 0.5
    chance = np.where(old[:, None], [0.7, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7])
    level = (rng.random(old.size)[:, None] > chance.cumsum(axis=1)).sum(axis=1)
    base = np.where(old, 0.7, 0.2) + 0.04 * level
    frame = pd.DataFrame(
        {
            "account_id": [f"a{k}" for k in range(old.size)],
            "level": level,
            "response": (rng.random(old.size) < base).astype(float),
            "propensity": chance[np.arange(old.size), level],
        }
    )
    weight = 1 / frame["propensity"]
    right = [np.average(frame["response"][level == j], weights=weight[level == j]) for j in range(4)]
    np.testing.assert_allclose(curve(frame), right, atol=1e-6)
    assert (np.diff(right) > 0).all()
    assert np.ptp(curve(frame.drop(columns="propensity"))) == 0  # the rich had less: without weights it falls


def test_a_log_of_which_nothing_was_drawn_shows_no_effect() -> None:
    frame = bonus(0, 3000, 8)
    assert np.ptp(curve(frame.assign(propensity=0.25))) > 0
    assert np.ptp(curve(frame.assign(propensity=1.0))) == 0


def test_of_levels_without_an_order_each_that_differs_from_the_lowest_has_its_own_mean() -> None:
    shown = np.zeros(2)
    for seed in range(20):
        trial = draw("email", seed=seed, accounts=6000)
        response = trial.response.astype(float)
        frame = pd.DataFrame({"account_id": np.arange(6000).astype(str), "level": trial.level, "response": response})
        found = make("flat", levels=(0, 1, 2), unordered=("customer",)).fit(frame).curve(frame.head(1)).response[:, 0]
        groups = [response[trial.level == j] for j in range(3)]
        p = [stats.ttest_ind(groups[j], groups[0], equal_var=False).pvalue for j in (1, 2)]
        for j, sure in zip((1, 2), multipletests(p, method="holm")[0], strict=True):
            assert found[j] == pytest.approx(groups[j if sure else 0].mean(), abs=1e-7)
            shown[j - 1] += sure
    assert shown[0] > 15


def test_levels_of_one_amount_have_no_order() -> None:
    rng = np.random.default_rng(1)
    level = rng.integers(0, 3, 6000)
    response = (rng.random(6000) < np.array([0.1, 0.3, 0.2])[level]).astype(float)
    frame = pd.DataFrame({"account_id": np.arange(6000).astype(str), "level": level, "response": response})
    means = frame.groupby("level")["response"].mean().to_numpy()
    np.testing.assert_allclose(curve(frame, (0, 50, 50)), means, atol=1e-7)
    numbers = make("flat", levels=(0, 1, 2), unordered=("customer",)).fit(frame).curve(frame.head(1)).response[:, 0]
    np.testing.assert_allclose(numbers, means, atol=1e-7)
    assert np.diff(curve(frame, (0, 1, 2)))[1] == 0


def test_a_level_without_rows_counts_as_the_one_below_it() -> None:
    frame = bonus(0, 3000, 8)
    frame = frame[frame["level"] != 2]
    found = curve(frame)
    assert found[2] == found[1] < found[3]
    found = curve(frame[frame["level"] != 0])
    assert found[0] == found[1]


def test_of_a_log_whose_levels_had_reasons_only_the_slope_within_cells_counts() -> None:
    rng = np.random.default_rng(2)
    shop, week = rng.integers(0, 30, 8000), rng.integers(0, 6, 8000)
    # Shops that respond more give more: level means rise although the level does nothing.
    level = np.clip((shop // 8 + rng.integers(0, 2, 8000)), 0, 3)
    for effect, rising in ((0.0, False), (0.08, True)):
        response = (rng.random(8000) < 0.1 + 0.015 * shop + effect * (level - 1.5)).astype(float)
        frame = pd.DataFrame(
            {
                "account_id": np.arange(8000).astype(str),
                "level": level,
                "response": response,
                "c_shop": shop.astype(str),
                "snapshot_at": 1.7e9 + week * 7 * 86_400.0,
            }
        )
        model = make("flat", levels=LEVELS, side="customer", confounders={"customer": ("c_shop",)}).fit(frame)
        found = model.curve(frame.head(1)).response[:, 0].astype(float)
        assert (np.ptp(found) > 0) == rising
        assert found.mean() == pytest.approx(response.mean(), abs=0.05)
        if rising:
            assert np.diff(found) == pytest.approx(effect, abs=0.02)
