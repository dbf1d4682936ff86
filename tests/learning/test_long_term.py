"""Values of responses by a surrogate index, in a world whose long-term effects are known."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from shadowprice.campaign.long_term import LongTerm
from shadowprice.currency import Currency
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.uplift.long_term import LongTermFigures
from shadowprice.experiments.lifts import lift
from shadowprice.learning.long_term import value_by_index

PLAN = LongTerm("x_value_90", ("amount", "x_visits"))
RESPONSE, VISITS = np.array([0.2, 0.3, 0.5]), np.array([3.0, 3.2, 1.0])
ORDER = 2000.0
LATE = 1500 + ORDER * RESPONSE + 1000 * VISITS
"""Mean value in 90 days by level, cents: the highest level brings most orders, and drives visitors away."""


def world(n: int = 6000, *, direct: float = 0.0, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Labeled rows and their features; the late window of the first half is over."""
    rng = np.random.default_rng(seed)
    account, level = rng.integers(0, n // 3, n), rng.choice(3, n, p=[0.5, 0.3, 0.2])
    x = np.sign(rng.normal(size=n // 3))[account]
    response = (rng.random(n) < RESPONSE[level] * (1 + 0.3 * x)).astype(float)
    amount = np.where(response > 0, np.rint(rng.exponential(ORDER, n)) + 1, np.nan)
    visits = rng.poisson(VISITS[level]).astype(float)
    late = 1500 + np.nan_to_num(amount) + 1000 * visits + 800 * x + 1500 * rng.normal(size=n) + direct * (level == 2)
    rows = pd.DataFrame(
        {
            "account_id": [f"a{one}" for one in account],
            "level": level,
            "response": response,
            "propensity": np.array([0.5, 0.3, 0.2])[level],
            "split": np.where(account % 5 == 0, "test", "train"),
            "amount": amount,
            "outcome_x_visits": visits,
            "outcome_x_value_90": np.where(np.arange(n) < n // 2, late, np.nan),
        }
    )
    return rows, pd.DataFrame({"x_kind": x})


def by_level(rows: pd.DataFrame, worth: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean worth of the rows of each level."""
    return np.array([worth[rows["level"] == one].mean() for one in range(3)])


def test_the_index_turns_a_decision_around_that_the_short_window_gets_wrong() -> None:
    rows, features = world(seed=4)
    value, found = value_by_index(rows, features, PLAN, 3)
    assert np.argmax(by_level(rows, rows["amount"].fillna(0).to_numpy())) == 2
    assert np.argmax(by_level(rows, rows["response"].to_numpy())) == 2
    assert np.argmax(LATE) == 1
    assert np.argmax(by_level(rows, value)) == 1
    for level, effect in enumerate(found.effects, 1):
        assert effect.low < LATE[level] - LATE[0] < effect.high
        assert effect.high - effect.low < 600
    assert found.rows == (np.isfinite(rows["outcome_x_value_90"]) & (rows["split"] != "test")).sum()
    assert not found.fails


def test_responses_add_up_to_the_effect_of_each_level_on_all_its_requests() -> None:
    """A request without a response is worth something too: only what a response adds counts for it."""
    rows, features = world(20_000, seed=1)
    value, found = value_by_index(rows, features, PLAN, 3)
    used = (rows["split"] != "test").to_numpy()
    mean = by_level(rows[used], value[used])
    assert found.worthless == (2,)
    # The highest level harms in the long run; no response can be worth less than nothing to the solver.
    assert mean[2] < 0.01 * mean[0]
    np.testing.assert_allclose(mean[1] - mean[0], found.effects[0].value, rtol=1e-6)
    assert (value[(rows["response"] == 0).to_numpy()] == 0).all()
    assert (value[(rows["response"] > 0).to_numpy()] > 0).all()


@pytest.mark.parametrize(("direct", "fails"), [(0.0, False), (-2500.0, True)])
def test_a_check_compares_the_index_with_the_late_outcome_where_that_is_known(direct: float, fails: bool) -> None:
    rows, features = world(12_000, direct=direct, seed=2)
    _, found = value_by_index(rows, features, PLAN, 3)
    assert found.fails == fails
    learned, observed = found.learned[1], found.observed[1]
    assert learned is not None
    assert observed is not None
    assert observed.low < LATE[2] - LATE[0] + direct < observed.high
    assert (observed.low <= learned.value <= observed.high) == (not fails)
    names = ("nothing", "$2.00", "$4.00")
    lines = list(found.sentences(names, Currency.of("USD")))
    assert lines[0].startswith("Values are long-term value (x_value_90), predicted by a surrogate index learned on 4,")
    assert "They are not measured." in lines[0]
    assert any(line.startswith("Learned rows, $4.00 against nothing: x_value_90 differs by −$") for line in lines)
    assert any("Do not decide by this index" in line for line in lines) == fails
    assert LongTermFigures.from_dict(found.to_dict()) == found


def test_rows_of_one_level_learn_an_index_and_cannot_check_it() -> None:
    """A past campaign gave everybody the same."""
    rows, features = world(seed=3)
    rows.loc[rows["level"] != 0, "outcome_x_value_90"] = np.nan
    _, found = value_by_index(rows, features, PLAN, 3)
    assert (found.p_value, found.learned, found.observed) == (None, (None, None), (None, None))
    assert found.effects[1].low < LATE[2] - LATE[0] < found.effects[1].high
    assert "cannot check the index" in " ".join(found.sentences(("0", "2", "4"), Currency.of("USD")))


def test_the_relative_error_of_values_is_their_spread_over_draws_of_the_late_outcome() -> None:
    """Rows with new noise in their late outcomes at each draw, so that the index alone varies."""
    rows, features = world(900, seed=6)
    rng, used = np.random.default_rng(1), (rows["split"] != "test").to_numpy()
    values, expected = [], []
    for _ in range(100):
        late = rows["outcome_x_value_90"] + 1500 * rng.normal(size=len(rows))
        value, found = value_by_index(rows.assign(outcome_x_value_90=late), features, PLAN, 3)
        values.append(by_level(rows[used], value[used])[:2])
        expected.append(np.array(found.relative)[:2, :2])
    spread = np.cov(np.log(values).T)
    predicted = np.mean(expected, axis=0)
    # The first noise is that of the world itself, in all draws the same: it is in the error of each fit as well.
    np.testing.assert_allclose(predicted, 2 * spread, rtol=0.3)


def test_a_lift_has_the_error_that_its_values_have_in_common() -> None:
    rng, n = np.random.default_rng(8), 4000
    level = rng.integers(0, 2, n)
    y = (rng.random(n) < 0.2 + 0.1 * level).astype(float)
    frame = pd.DataFrame({"account_id": np.arange(n), "arm": np.where(level, "policy", "holdout"), "cost": y * level})
    assigned, value = frame[["account_id", "arm"]], y * np.array([30.0, 40.0])[level]
    whole, *parts = (
        lift(frame.assign(value=own), "holdout", assigned)[0] for own in (value, value * (level == 0), value * level)
    )
    relative = np.array([[0.04, 0.01], [0.01, 0.09]])
    wide = whole.widened(parts, relative)
    # The values of both levels move by one draw of the index: the lift moves by what they are in it.
    moves = np.array([1.0, 1.0]) + rng.multivariate_normal([0, 0], relative, 200_000)
    means = np.array([-value[level == 0].mean(), value[level == 1].mean()])
    assert wide.value.error**2 - whole.value.error**2 == pytest.approx((moves @ means).var(), rel=0.02)
    assert wide.value.value == whole.value.value
    assert (wide.value.high - wide.value.value) / wide.value.error == pytest.approx(1.96, abs=0.01)
    assert wide.total.error / wide.total.value == pytest.approx(wide.value.error / wide.value.value, rel=0.1)
    assert wide.cost == whole.cost
    assert whole.widened(parts, np.zeros((2, 2))).value == whole.value


def test_what_is_missing_is_named() -> None:
    rows, features = world()
    with pytest.raises(InvalidInput, match=r"outcome\.x_visits: is missing: long_term names it .* \(first rows: 7\)"):
        value_by_index(rows.assign(outcome_x_visits=rows["outcome_x_visits"].where(rows.index != 7)), features, PLAN, 3)
    with pytest.raises(InvalidInput, match=r"outcome\.x_visits: is missing: long_term of the campaign names it"):
        value_by_index(rows.drop(columns="outcome_x_visits"), features, PLAN, 3)
    none = rows.assign(outcome_x_value_90=np.nan)
    with pytest.raises(InvalidInput, match=r"outcome\.x_value_90: has 0 rows with a known value"):
        value_by_index(none, features, PLAN, 3)
    with pytest.raises(InvalidInput, match="level 3 has no row"):
        value_by_index(rows, features, PLAN, 4)
    for early in ((), ("amount", "amount"), ("x_value_90",), ("visits",)):
        with pytest.raises(InvalidInput, match=r"long_term\.early"):
            replace(PLAN, early=early)
    with pytest.raises(InvalidInput, match=r"long_term\.late"):
        replace(PLAN, late="value")
