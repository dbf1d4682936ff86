"""Stability of the raw columns of the accounts that ask."""

import numpy as np
import pandas as pd
import pytest

from shadowprice.watch.feature_drift import describe_columns, feature_drift


def accounts(rng: np.random.Generator, size: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "account_id": [f"a{each}" for each in range(size)],
            "x_age": rng.normal(size=size),
            "c_town": rng.choice(["north", "south"], size, p=[0.3, 0.7]),
        }
    )


def test_the_index_is_the_sum_over_weighted_deciles_and_names_the_column() -> None:
    rng = np.random.default_rng(0)
    frame, weight = accounts(rng, 4000), rng.gamma(2.0, size=4000)
    reference = describe_columns(frame.drop(columns="account_id"), weight)
    assert np.allclose(reference["x_age"]["shares"][:10], 0.1, atol=2e-3)
    assert dict(zip(reference["c_town"]["values"], reference["c_town"]["shares"], strict=False)) == {
        town: pytest.approx(weight[frame["c_town"] == town].sum() / weight.sum()) for town in ("north", "south")
    }
    moved = frame.assign(x_age=frame["x_age"] + 1.0)
    (found,) = feature_drift(moved, "customer", reference, 4000, rate=0.05)
    assert found.alarm
    assert "x_age" in found.sentence
    place = np.searchsorted(reference["x_age"]["edges"], moved["x_age"])
    e, o = (np.array([*each, 0]) + 0.5 for each in (4000 * np.array(reference["x_age"]["shares"][:10]),
                                                     np.bincount(place, minlength=10)))  # fmt: skip
    e, o = e / e.sum(), o / o.sum()
    assert found.statistic == pytest.approx(float(((o - e) * np.log(o / e)).sum()))


@pytest.mark.parametrize(
    ("change", "column"),
    [({"x_age": np.nan}, "x_age"), ({"c_town": "west"}, "c_town")],
)
def test_missing_numbers_and_unknown_texts_are_bins(change: dict[str, object], column: str) -> None:
    rng = np.random.default_rng(1)
    reference = describe_columns(accounts(rng, 3000).drop(columns="account_id"), np.ones(3000))
    now = accounts(rng, 1000)
    for name, value in change.items():
        now.loc[now.index < 400, name] = value
    (found,) = feature_drift(now, "customer", reference, 3000, rate=0.05)
    assert found.alarm
    assert column in found.sentence


def test_other_accounts_of_the_same_population_raise_no_alarm() -> None:
    rng = np.random.default_rng(2)
    reference = describe_columns(accounts(rng, 3000).drop(columns="account_id"), np.ones(3000))
    alarms = [feature_drift(accounts(rng, 100), "customer", reference, 3000, rate=0.05)[0].alarm for _ in range(200)]
    assert np.mean(alarms) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)
    assert feature_drift(accounts(rng, 50), "customer", reference, 3000, rate=0.05) == []
