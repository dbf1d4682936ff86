"""The surrogate index against statsmodels and known effects: what it covers, and what its check can see."""

from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.uplift.surrogate import SurrogateIndex

Array = NDArray[np.float64]
RESPONSE, VISITS = np.array([0.2, 0.35, 0.5]), np.array([3.0, 2.8, 0.6])
SPENT, WEIGHTS = 20.0, np.array([12.0, 0.5, 6.0])
LATE = WEIGHTS @ np.stack([RESPONSE, RESPONSE * SPENT, VISITS])
"""Mean late outcome by level, but for a constant: the highest level has most responses, and loses in the long run."""


def draw(rng: np.random.Generator, accounts: int, direct: float = 0.0) -> dict[str, Any]:
    """Two rows of each account at random levels; ``direct`` is what the highest level does past the early outcomes."""
    account, level = np.repeat(np.arange(accounts), 2), rng.integers(0, 3, 2 * accounts)
    x = rng.normal(size=accounts)[account]
    # Who buys much responds more and is worth more later: without the feature the index would be too high.
    response = (rng.random(level.size) < np.clip(RESPONSE[level] * (1 + 0.3 * np.sign(x)), 0, 1)).astype(float)
    spent = response * rng.exponential(SPENT, level.size)
    visits = rng.poisson(VISITS[level]).astype(float)
    early = np.column_stack([response, spent, visits])
    noise = 5 * rng.normal(size=accounts)[account] + 10 * rng.normal(size=level.size)
    late = 40 + early @ WEIGHTS + 15 * np.sign(x) + noise + direct * (level == 2)
    return {"early": early, "late": late, "level": level, "features": np.sign(x)[:, None], "account": account}


def learned(rows: dict[str, Any], **changes: Any) -> SurrogateIndex:
    return SurrogateIndex.fit(
        rows["early"], rows["late"], features=changes.get("features", rows["features"]), account=rows["account"]
    )


def test_the_index_is_least_squares_with_errors_by_account() -> None:
    rows = draw(np.random.default_rng(1), 300)
    own = np.round(rows["early"][:, [0, 2]])
    own[:, 1] = np.minimum(own[:, 1], 3)  # of four values: linear
    found = SurrogateIndex.fit(own, rows["late"], features=rows["features"], account=rows["account"])
    scale = np.array([1.0, 3.0])
    design = np.column_stack([np.ones(len(own)), own / scale, rows["features"]])
    known = sm.OLS(rows["late"], design).fit(
        cov_type="cluster", cov_kwds={"groups": rows["account"], "use_correction": False}
    )
    np.testing.assert_allclose(found.coefficients, known.params, rtol=1e-8)
    np.testing.assert_allclose(found.covariance * 299 / 300, known.cov_params(), rtol=1e-8)
    assert found.explained == pytest.approx(known.rsquared)


def test_intervals_cover_a_long_term_effect_that_turns_the_short_one_around() -> None:
    rng, inside, values = np.random.default_rng(2), [], []
    for _ in range(250):
        past, trial = draw(rng, 250), draw(rng, 300)
        effects = learned(past).effects(
            trial["early"], trial["level"], 3, features=trial["features"], account=trial["account"]
        )
        inside.append([each.low <= LATE[k] - LATE[0] <= each.high for k, each in enumerate(effects, 1)])
        values.append([each.value for each in effects])
    covered = np.mean(inside, axis=0)
    assert (covered > 0.92).all()
    assert (covered < 0.98).all()
    np.testing.assert_allclose(np.mean(values, axis=0), LATE[1:] - LATE[0], atol=0.35)
    assert LATE[2] < LATE[0] < LATE[1]


def test_without_the_error_of_the_index_the_interval_would_be_too_short() -> None:
    """With few learned rows the coefficients are most of the error."""
    rng, inside = np.random.default_rng(3), []
    for _ in range(150):
        past, trial = draw(rng, 60), draw(rng, 1500)
        (_, top) = learned(past).effects(trial["early"], trial["level"], 3, features=trial["features"])
        inside.append([abs(top.value - LATE[2] + LATE[0]) < share * (top.high - top.low) / 2 for share in (1.0, 0.5)])
    whole, half = np.mean(inside, axis=0)
    assert whole > 0.9
    assert half < 0.8


def test_an_index_without_the_feature_behind_both_outcomes_is_biased() -> None:
    rng = np.random.default_rng(4)
    past, trial = draw(rng, 5000), draw(rng, 5000)
    bare = SurrogateIndex.fit(past["early"], past["late"], account=past["account"])
    with_feature = learned(past).effects(trial["early"], trial["level"], 3, features=trial["features"])[0]
    without = bare.effects(trial["early"], trial["level"], 3)[0]
    assert abs(with_feature.value - (LATE[1] - LATE[0])) < 0.7
    assert without.value > with_feature.value


def test_the_check_sees_a_level_that_acts_past_the_early_outcomes_and_is_calibrated_otherwise() -> None:
    rng = np.random.default_rng(5)
    values = {direct: [] for direct in (0.0, -8.0)}
    for direct, found in values.items():
        for _ in range(200):
            rows = draw(rng, 250, direct)
            p = learned(rows).difference(
                rows["early"], rows["late"], rows["level"], features=rows["features"], account=rows["account"]
            )
            assert p is not None
            found.append(p)
    assert np.mean(np.array(values[0.0]) < 0.05) < 0.09
    assert np.mean(np.array(values[-8.0]) < 0.05) > 0.9


def test_rows_of_one_level_cannot_be_checked_and_few_rows_are_refused() -> None:
    rows = draw(np.random.default_rng(6), 100)
    index = learned(rows)
    same = np.zeros(len(rows["late"]), dtype=np.int64)
    assert (
        index.difference(rows["early"], rows["late"], same, features=rows["features"], account=rows["account"]) is None
    )
    few = {name: values[:20] for name, values in rows.items()}
    with pytest.raises(InvalidInput, match="has 20 rows with a known value, and the index needs 45; wait"):
        learned(few)
    rows["early"][3, 0] = np.nan
    with pytest.raises(InvalidInput, match="must be finite") as refusal:
        learned(rows)
    assert refusal.value.rows == (3,)
