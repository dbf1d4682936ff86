"""Balance of features between the levels of a trial."""

import numpy as np
import pandas as pd
from scipy import stats

from shadowprice.evaluation.statistics.level_means import LevelMeans
from shadowprice.evaluation.uplift.balance import balance


def features(rng: np.random.Generator, size: int) -> pd.DataFrame:
    income = rng.lognormal(size=size)
    income[rng.random(size) < 0.1] = np.nan
    return pd.DataFrame(
        {"x_age": rng.normal(40, 12, size), "x_income": income, "c_city": rng.choice(list("pqr"), size)}
    )


def test_a_trial_that_was_drawn_is_called_unbalanced_in_at_most_5_percent() -> None:
    rng, alarms = np.random.default_rng(0), 0
    for _ in range(200):
        found = balance(LevelMeans(rng.integers(0, 4, 800), 4), features(rng, 800), 800)
        assert found is not None
        alarms += found.p_value < 0.05
    assert alarms <= stats.binom.ppf(0.999, 200, 0.05)


def test_a_level_that_older_accounts_got_is_found_with_its_distance() -> None:
    rng = np.random.default_rng(1)
    own = features(rng, 3000)
    level = (own["x_age"].to_numpy() + rng.normal(0, 12, 3000) > 40).astype(int)
    found = balance(LevelMeans(level, 2), own, 3000)
    assert found is not None
    assert found.worst == "age"
    assert found.p_value < 1e-9
    mean = own["x_age"].groupby(level).mean()
    assert np.isclose(found.difference, (mean[1] - mean[0]) / own["x_age"].std(ddof=0))


def test_inverse_propensities_balance_what_the_assignment_looked_at() -> None:
    rng = np.random.default_rng(2)
    own = features(rng, 6000)
    chance = 1 / (1 + np.exp(-(own["x_age"].to_numpy() - 40) / 12))
    level = (rng.random(6000) < chance).astype(int)
    weight = 1 / np.where(level == 1, chance, 1 - chance)
    plain, weighted = (balance(LevelMeans(level, 2, weight=each), own, 6000) for each in (None, weight))
    assert plain is not None
    assert weighted is not None
    assert plain.p_value < 1e-9
    assert weighted.p_value > 0.01


def test_without_a_feature_that_varies_there_is_none() -> None:
    assert balance(LevelMeans([0, 1, 0, 1], 2), pd.DataFrame({"x_a": [1.0] * 4}), 4) is None
